//! Amounts of memory, as they are set and in bytes.

use std::str::FromStr;

use bytesize::ByteSize;

use super::variable::Variable;
use crate::engine::ALIGN_BYTES;
use crate::error::Error;

/// The smallest budget: one block.
pub(crate) const MIN_BUDGET_BYTES: usize = ALIGN_BYTES;

/// An amount of memory: bytes, or a share of the free memory.
///
/// ```
/// use burn_overcommit::Amount;
///
/// assert_eq!("8 GiB".parse(), Ok(Amount::Bytes(8 << 30)));
/// assert_eq!("25%".parse(), Ok(Amount::Share(0.25)));
/// assert_eq!(Amount::Share(0.25).of(4096), 1024);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// This many bytes.
    Bytes(usize),
    /// This fraction, 0 to 1, of the memory that is free when the device is first used.
    Share(f64),
}

impl Amount {
    /// The amount in bytes if `free_bytes` are free.
    pub fn of(self, free_bytes: usize) -> usize {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Share(share) => (free_bytes as f64 * share) as usize,
        }
    }
}

/// The error says what was expected instead.
impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || String::from("bytes such as 8 GiB or 500000, or a share such as 50%");
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| expected())?;
            return match percent {
                0.0..=100.0 => Ok(Amount::Share(percent / 100.0)),
                _ => Err("a share from 0% to 100%, since it is one of the memory that is free".into()),
            };
        }
        let size: ByteSize = text.parse().map_err(|_| expected())?;
        usize::try_from(size.as_u64()).map(Amount::Bytes).map_err(|_| expected())
    }
}

/// An amount with the setting that set it and the text that was given. The amount is an error that says what was expected if
/// the text has none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    setting: &'static str,
    text: String,
    amount: Result<Amount, String>,
}

impl Given {
    pub fn text(setting: &'static str, text: &str) -> Self {
        Given { setting, text: text.into(), amount: text.trim().parse() }
    }

    pub fn bytes(setting: &'static str, bytes: usize) -> Self {
        Given { setting, text: format!("{bytes} bytes"), amount: Ok(Amount::Bytes(bytes)) }
    }

    /// Reads the amount from the environment, if it is set there.
    pub fn read(variable: Variable) -> Option<Self> {
        Some(Given::text(variable.name(), &variable.text()?))
    }

    /// The amount, if it is one of bytes.
    pub fn as_bytes(&self) -> Option<usize> {
        match self.amount {
            Ok(Amount::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The amount in bytes. It has to be at least `least_bytes` and at most what is free.
    pub fn resolve(&self, free_bytes: usize, least_bytes: usize) -> Result<usize, Error> {
        let error = |expected: String| {
            let value = self.text.clone();
            Err(Error::Setting { setting: self.setting, value, expected })
        };
        let amount = match &self.amount {
            Ok(amount) => *amount,
            Err(expected) => return error(expected.clone()),
        };
        let bytes = amount.of(free_bytes);
        if bytes > free_bytes {
            return error(format!("at most the {free_bytes} bytes that are free"));
        }
        if bytes < least_bytes {
            return error(format!(
                "at least {least_bytes} bytes, and it is {bytes} of the {free_bytes} that are free"
            ));
        }
        Ok(bytes)
    }

    /// A message that the amount is rounded down.
    pub fn rounded(&self, to_bytes: usize) -> String {
        format!("{}: \"{}\" is rounded down to {to_bytes} bytes", self.setting, self.text)
    }

    /// The bytes that were requested, if the setting was in bytes.
    pub fn asked_bytes(&self) -> Option<usize> {
        match self.amount {
            Ok(Amount::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_amount_says_what_is() {
        assert_eq!("50%".parse(), Ok(Amount::Share(0.5)));
        assert_eq!("1KB".parse(), Ok(Amount::Bytes(1000)));
        for (text, expected) in
            [("101%", "0% to 100%"), ("-1%", "0% to 100%"), ("x%", "50%"), ("much", "8 GiB"), ("-1", "8 GiB")]
        {
            let error = text.parse::<Amount>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn amounts_are_resolved_between_the_least_and_what_is_free() {
        let resolved =
            |text: &str, least_bytes| Given::text("Config::budget", text).resolve(10_000, least_bytes);
        assert_eq!(resolved("1KB", 256).unwrap(), 1000);
        assert_eq!(resolved("50%", 256).unwrap(), 5000);
        assert_eq!(resolved("0", 0).unwrap(), 0);
        for (text, expected) in [
            ("0", "at least 256 bytes"),
            ("255", "at least 256"),
            ("0%", "at least 256"),
            ("999 TiB", "at most the 10000 bytes"),
        ] {
            let error = resolved(text, 256).unwrap_err().to_string();
            let named = error.starts_with(&format!("Config::budget: \"{text}\" was given; expected "));
            assert!(named && error.contains(expected), "{error}");
        }
    }
}
