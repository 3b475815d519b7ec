//! The password that clients must give, and the secret that nodes share.

use super::ConfigError;
use std::fmt;
use std::path::Path;

/// The longest password or secret in bytes.
const PASSWORD_MAX_BYTES: usize = 512;
/// The shortest secret in bytes: it cannot be guessed by who has recorded what it sealed.
const SECRET_MIN_BYTES: usize = 16;

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
        read_line(path, key, "password").map(Self)
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

/// The secret that the nodes of a cluster share. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret(Vec<u8>);

impl ClusterSecret {
    /// Reads a file that holds a secret on one line. `key` is the key or flag that names the file, for errors.
    ///
    /// # Errors
    /// The file cannot be read, or holds no usable secret.
    pub fn read(path: &Path, key: &'static str) -> Result<Self, ConfigError> {
        let secret = read_line(path, key, "cluster secret")?;
        if secret.len() < SECRET_MIN_BYTES {
            return Err(ConfigError::Password {
                path: path.to_owned(),
                key,
                reason: format!("holds a cluster secret of less than {SECRET_MIN_BYTES} bytes"),
            });
        }
        Ok(Self(secret))
    }

    /// The secret itself, to derive keys from.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(…)")
    }
}

/// What a file holds on its one line; `what` it is, for errors.
fn read_line(path: &Path, key: &'static str, what: &str) -> Result<Vec<u8>, ConfigError> {
    let mut bytes = std::fs::read(path).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        key,
        source,
    })?;
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    let reason = if bytes.is_empty() {
        format!("holds no {what}")
    } else if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
        format!("must hold the {what} on one line")
    } else if bytes.len() > PASSWORD_MAX_BYTES {
        format!("holds a {what} of more than {PASSWORD_MAX_BYTES} bytes")
    } else {
        return Ok(bytes);
    };
    Err(ConfigError::Password {
        path: path.to_owned(),
        key,
        reason,
    })
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
