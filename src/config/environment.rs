//! Reading the environment variables.

use std::str::FromStr;

use super::variable::{VARIABLES, Variable};
use crate::error::Error;

/// Every variable's name begins with it.
const PREFIX: &str = "OVERCOMMIT_";

/// Names with the prefix that are not the library's: of `overcommit serve`, and of the manager of Git hooks that is named Overcommit.
const OF_OTHERS: [&str; 5] = [
    "OVERCOMMIT_TOKEN",
    "OVERCOMMIT_COLOR",
    "OVERCOMMIT_DEBUG",
    "OVERCOMMIT_DISABLE",
    "OVERCOMMIT_NO_VERIFY",
];

/// Reports a variable whose name has the prefix and is none of the table: most likely it is misspelt.
pub(super) fn check_names(names: impl Iterator<Item = String>) -> Result<(), Error> {
    let known = VARIABLES.map(|(_, name, ..)| name);
    let is_unknown = |name: &String| {
        name.starts_with(PREFIX) && !known.iter().chain(&OF_OTHERS).any(|known| known == name)
    };
    let Some(name) = names.filter(is_unknown).min() else { return Ok(()) };
    let nearest = known.into_iter().min_by_key(|known| strsim::damerau_levenshtein(known, &name));
    Err(Error::UnknownVariable { nearest: nearest.unwrap_or_default(), name })
}

/// The names of the environment's variables, as far as they are text.
pub(super) fn names() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_reported_with_the_nearest() {
        let check = |names: &[&str]| check_names(names.iter().map(|name| name.to_string()));
        check(&["PATH", "OVERCOMMIT_BUDGET", "OVERCOMMIT_TOKEN", "OVERCOMMIT_DISABLE"]).unwrap();
        for (name, nearest) in [
            ("OVERCOMMIT_BUGDET", "OVERCOMMIT_BUDGET"),
            ("OVERCOMMIT_HOSTLIMIT", "OVERCOMMIT_HOST_LIMIT"),
            ("OVERCOMMIT_DEVICES", "OVERCOMMIT_DEVICE"),
            ("OVERCOMMIT_PLANCACHE", "OVERCOMMIT_PLAN_CACHE"),
        ] {
            let text = check(&["HOME", name]).unwrap_err().to_string();
            assert!(text.starts_with(name) && text.contains(nearest), "{text}");
        }
    }
}
