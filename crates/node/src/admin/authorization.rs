//! The password over HTTP: `Authorization: Bearer PASSWORD`, or Basic with the user `default` or none.

use crate::config::Password;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Whether a request carries the password.
pub(super) fn carries(headers: &HeaderMap, password: &Password) -> bool {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let value = value.as_bytes();
    let Some(blank) = value.iter().position(|byte| *byte == b' ') else {
        return false;
    };
    let (scheme, credentials) = (&value[..blank], value[blank..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return password.matches(credentials);
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return false;
    }
    let Ok(pair) = STANDARD.decode(credentials) else {
        return false;
    };
    match pair.iter().position(|byte| *byte == b':') {
        Some(colon) => matches!(&pair[..colon], b"" | b"default") && password.matches(&pair[colon + 1..]),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_bearer_and_basic() {
        let password = Password::new("s3cret:é");
        let carries = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(
                    AUTHORIZATION,
                    axum::http::HeaderValue::from_bytes(value.as_bytes()).unwrap(),
                );
            }
            carries(&headers, &password)
        };
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        for good in [
            "Bearer s3cret:é".to_owned(),
            "bearer  s3cret:é".to_owned(),
            basic(":s3cret:é"),
            basic("default:s3cret:é"),
        ] {
            assert!(carries(&[&good]), "{good}");
            assert!(!carries(&[&good, &good]));
        }
        for bad in [
            "s3cret:é".to_owned(),
            "Bearer".to_owned(),
            "Bearer s3cret".to_owned(),
            "Digest s3cret:é".to_owned(),
            "Basic ???".to_owned(),
            basic("s3cret"),
            basic("root:s3cret:é"),
            basic("default:s3cret"),
        ] {
            assert!(!carries(&[&bad]), "{bad}");
        }
        assert!(!carries(&[]));
    }
}
