//! The password that clients must give.

use super::ConfigError;
use std::fmt;
use std::path::Path;

/// The longest password in bytes.
const PASSWORD_MAX_BYTES: usize = 512;

/// A password. Never printed, and compared in a time that does not depend on what is wrong with the guess.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Vec<u8>);

impl Password {
    /// Takes a password.
    pub fn new(password: impl Into<Vec<u8>>) -> Self {
        Self(password.into())
    }

    /// Reads a file that holds a password on one line. `key` is the key or flag that names the file, for errors.
    ///
    /// # Errors
    /// The file cannot be read, or holds no usable password.
    pub fn read(path: &Path, key: &'static str) -> Result<Self, ConfigError> {
        let mut bytes = std::fs::read(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            key,
            source,
        })?;
        while matches!(bytes.last(), Some(b'\n' | b'\r')) {
            bytes.pop();
        }
        let refuse = |reason| {
            Err(ConfigError::Password {
                path: path.to_owned(),
                key,
                reason,
            })
        };
        if bytes.is_empty() {
            return refuse("holds no password");
        }
        if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
            return refuse("must hold the password on one line");
        }
        if bytes.len() > PASSWORD_MAX_BYTES {
            return refuse("holds a password of more than 512 bytes");
        }
        Ok(Self(bytes))
    }

    /// The password itself, to give it to a node.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a guess is right.
    pub fn matches(&self, guess: &[u8]) -> bool {
        let mut difference = self.0.len() ^ guess.len();
        for (index, byte) in guess.iter().enumerate() {
            // Past its end the password starts again: the length has told them apart already.
            let expected = self.0.get(index % self.0.len().max(1)).copied();
            difference |= usize::from(byte ^ expected.unwrap_or(0));
        }
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_matches() {
        let password = Password::new("correct horse");
        assert!(password.matches(b"correct horse"));
        for guess in [
            &b""[..],
            b"c",
            b"correct hors",
            b"correct horse ",
            b"correct horsecorrect horse",
            b"Correct horse",
        ] {
            assert!(!password.matches(guess));
        }
        assert_eq!(format!("{password:?}"), "Password(…)");
    }
}
