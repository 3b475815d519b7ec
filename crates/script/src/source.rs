//! Where policies come from: the files built into the binary, and a directory of the operator's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::error::PolicyError;

/// Largest policy file that is read, in bytes. Bounds what the compiler and one straight line of code can cost.
pub const POLICY_SOURCE_BYTES_MAX: usize = 64 * 1024;

/// The text of one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySource {
    /// The policy's name: the file's name without `.lua`.
    pub name: String,
    /// The file's text.
    pub text: String,
}

/// Name and text of the files that are compiled into the binary.
const BUILTIN: [(&str, &str); 5] = [
    ("fixed_window", include_str!("../../../lua/fixed_window.lua")),
    ("leaky_bucket", include_str!("../../../lua/leaky_bucket.lua")),
    ("sliding_log", include_str!("../../../lua/sliding_log.lua")),
    ("sliding_window", include_str!("../../../lua/sliding_window.lua")),
    ("token_bucket", include_str!("../../../lua/token_bucket.lua")),
];

/// The policies built into the binary, by name.
pub fn builtin_policies() -> Vec<PolicySource> {
    BUILTIN
        .iter()
        .map(|&(name, text)| PolicySource {
            name: name.to_owned(),
            text: text.to_owned(),
        })
        .collect()
}

/// Whether `text` is byte for byte one of the files built into the binary.
pub(crate) fn is_builtin(text: &str) -> bool {
    BUILTIN.iter().any(|&(_, builtin)| builtin == text)
}

/// The built-in policies, overridden and extended by every `*.lua` of the directory `dir` (not of its subdirectories),
/// by name.
///
/// # Errors
/// [`PolicyError::Io`] when the directory or a file cannot be read, [`PolicyError::Invalid`] when a file is too large,
/// is not UTF-8 or has a name that no policy can have. Whether the texts are policies, [`crate::PolicyHost::new`] says.
pub fn load_dir(dir: &Path) -> Result<Vec<PolicySource>, PolicyError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| PolicyError::Io { path, source }
    };
    let mut found: BTreeMap<String, String> = builtin_policies()
        .into_iter()
        .map(|source| (source.name, source.text))
        .collect();
    for entry in fs::read_dir(dir).map_err(io(dir))? {
        let path = entry.map_err(io(dir))?.path();
        if path.extension().is_none_or(|extension| extension != "lua") || path.is_dir() {
            continue;
        }
        let size = fs::metadata(&path).map_err(io(&path))?.len();
        if size > POLICY_SOURCE_BYTES_MAX as u64 {
            return Err(too_large(&path.display().to_string(), size as usize));
        }
        let invalid = |message: &str| PolicyError::Invalid {
            file: path.display().to_string(),
            message: message.to_owned(),
        };
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .ok_or_else(|| invalid("the file's name is not UTF-8"))?;
        let bytes = fs::read(&path).map_err(io(&path))?;
        let text = String::from_utf8(bytes).map_err(|_| invalid("the text is not UTF-8"))?;
        found.insert(name.to_owned(), text);
    }
    Ok(found
        .into_iter()
        .map(|(name, text)| PolicySource { name, text })
        .collect())
}

/// The error for a text of `bytes` bytes.
pub(crate) fn too_large(file: &str, bytes: usize) -> PolicyError {
    PolicyError::Invalid {
        file: file.to_owned(),
        message: format!("{bytes} bytes; a policy may have {POLICY_SOURCE_BYTES_MAX}"),
    }
}
