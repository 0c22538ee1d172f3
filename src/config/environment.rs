//! Reading the environment variables.

use std::str::FromStr;

use log::LevelFilter;

use super::variable::Variable;
use crate::error::Error;

/// The log level unless one is set.
pub(super) const DEFAULT_LOG: LevelFilter = LevelFilter::Warn;

impl Variable {
    /// The value that was set, or else that of the environment.
    pub(super) fn or_read<T: FromStr>(self, set: Option<T>) -> Result<Option<T>, Error> {
        set.map_or_else(|| self.read().transpose(), |value| Ok(Some(value)))
    }

    /// The text of the variable, if it is set. Bytes that are not text are replaced by characters that no value contains.
    pub(crate) fn text(self) -> Option<String> {
        let value = std::env::var_os(self.name()).filter(|value| !value.is_empty())?;
        Some(value.to_string_lossy().trim().into())
    }

    pub(crate) fn read<T: FromStr>(self) -> Option<Result<T, Error>> {
        let value = self.text()?;
        Some(value.parse().map_err(|_| self.refuse(value, self.expected())))
    }

    /// The error for a wrong value.
    pub(crate) fn refuse(self, value: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Setting { setting: self.name(), value: value.into(), expected: expected.into() }
    }
}

/// Hands a message that belongs to no device to the [`log`] facade, if the environment asks for this level.
#[cfg(feature = "cuda")]
pub(crate) fn log_by_environment(level: log::Level, message: std::fmt::Arguments) {
    let most = Variable::Log.read().and_then(Result::ok).unwrap_or(DEFAULT_LOG);
    if level <= most {
        log::log!(target: "burn_overcommit", level, "{message}");
    }
}
