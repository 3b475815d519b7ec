//! Where a configuration comes from, and which source comes first.

use super::key::Raw;
use super::{Config, ConfigError, Origin, file, nearest};
use std::path::PathBuf;

/// What the names of environment variables for keys start with.
pub const VARIABLE_PREFIX: &str = "TOLLGATE_";
/// The environment variable that names the configuration file when `--config` is not given.
pub const VARIABLE_CONFIG: &str = "TOLLGATE_CONFIG";

/// A flag of the command line that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagValue {
    /// The flag as written, for example `--workers`.
    pub flag: &'static str,
    /// The key it sets, as `section.name`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// Everything that a configuration is read from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file of `--config`.
    pub file: Option<PathBuf>,
    /// The environment, at least all variables that start with [`VARIABLE_PREFIX`].
    pub environment: Vec<(String, String)>,
    /// The `section.key=value` of each `--set`, in order: the last one wins.
    pub set: Vec<String>,
    /// Flags that set one key each.
    pub flags: Vec<FlagValue>,
}

impl Config {
    /// Reads and checks a configuration: defaults, then the file, then the environment, then the command line.
    ///
    /// # Errors
    /// The first thing that is wrong. Nothing is guessed: an unknown key is an error wherever it is written.
    pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        let named = |(name, value): &(String, String)| (name == VARIABLE_CONFIG).then(|| PathBuf::from(value));
        let from_flag = sources.file.clone().map(|path| (path, "--config"));
        let from_variable = || Some((sources.environment.iter().find_map(named)?, VARIABLE_CONFIG));
        if let Some((path, named_by)) = from_flag.or_else(from_variable) {
            file::read(&mut config, &path, named_by)?;
        }
        for (variable, value) in &sources.environment {
            config.set_variable(variable, value)?;
        }
        for setting in &sources.set {
            let (path, value) = setting
                .split_once('=')
                .filter(|(path, _)| path.contains('.'))
                .ok_or_else(|| ConfigError::Set(setting.clone()))?;
            let path = path.trim();
            if let Some(flag) = sources.flags.iter().find(|flag| flag.key == path) {
                return Err(ConfigError::Twice {
                    key: path.to_owned(),
                    flag: flag.flag,
                });
            }
            config.set_path(path, value, Origin::Set)?;
        }
        for flag in &sources.flags {
            config.set_path(flag.key, &flag.value, Origin::Flag(flag.flag))?;
        }
        config.finish()?;
        Ok(config)
    }

    fn set_path(&mut self, path: &str, value: &str, at: Origin) -> Result<(), ConfigError> {
        let (section, name) = path.split_once('.').unwrap_or((path, ""));
        self.set(section, name, Raw::Plain(value), at)
    }

    /// Sets the key that an environment variable names; variables of others are none of our business.
    fn set_variable(&mut self, variable: &str, value: &str) -> Result<(), ConfigError> {
        let Some(name) = variable.strip_prefix(VARIABLE_PREFIX) else {
            return Ok(());
        };
        if variable == VARIABLE_CONFIG || is_service_link(name) {
            return Ok(());
        }
        let at = Origin::Variable(variable.to_owned());
        let key = self.keys().map(|(key, _)| key).find(|key| key.variable() == variable);
        match key {
            Some(key) => self.set(key.section, key.name, Raw::Plain(value), at),
            None => Err(ConfigError::Unknown {
                at,
                what: "key for",
                name: variable.to_owned(),
                nearest: nearest(variable, self.keys().map(|(key, _)| key.variable())),
            }),
        }
    }
}

/// Whether Kubernetes made the variable: of a service named `tollgate` or `tollgate-…` it gives every pod beside it
/// `TOLLGATE_SERVICE_HOST`, `TOLLGATE_PORT_6379_TCP_ADDR` and the like. No key has such a name.
pub(super) fn is_service_link(name: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    words.last() == Some(&"PORT")
        || words.windows(2).any(|pair| match pair {
            ["SERVICE", "HOST" | "PORT"] => true,
            ["PORT", number] => is_number(number),
            _ => false,
        })
}
