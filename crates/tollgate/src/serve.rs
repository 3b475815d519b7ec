//! `tollgate serve`: flags become sources of the configuration; the node does the rest.

use crate::cli::ServeArguments;
use std::io::Write;
use std::process::ExitCode;
use tollgate_node::config::{Config, FlagValue, Sources, VARIABLE_PREFIX};

/// Exit status of a node that could not start or did not stop cleanly.
const FAILED: u8 = 1;
/// Exit status of a wrong command line, as clap's own.
const USAGE: u8 = 2;

/// Runs a node until it is told to stop.
pub fn run(arguments: &ServeArguments) -> ExitCode {
    let environment = match environment() {
        Ok(environment) => environment,
        Err(variable) => return fail(FAILED, &format!("environment variable {variable}: is not UTF-8")),
    };
    let config = match Config::load(&sources(arguments, environment)) {
        Ok(config) => config,
        Err(error) if error.is_usage() => return fail(USAGE, &error),
        Err(error) => return fail(FAILED, &error),
    };
    if arguments.print_config {
        // A reader that has seen enough, such as `head`, closes the pipe; that is no failure.
        let _ = std::io::stdout().write_all(config.to_toml().as_bytes());
        return ExitCode::SUCCESS;
    }
    if let Err(error) = tollgate_node::logging::start(&config.log) {
        return fail(FAILED, &error);
    }
    match tollgate_node::serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(FAILED, &error),
    }
}

/// One line that says what and where.
fn fail(status: u8, error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("tollgate: {error}");
    ExitCode::from(status)
}

/// The variables that may be configuration; the name of one that is not UTF-8 as the error.
fn environment() -> Result<Vec<(String, String)>, String> {
    let mut environment = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else {
            continue;
        };
        let value = value.into_string().map_err(|_| name.to_owned())?;
        environment.push((name.to_owned(), value));
    }
    Ok(environment)
}

fn sources(arguments: &ServeArguments, environment: Vec<(String, String)>) -> Sources {
    let insecure = arguments.insecure.then(|| "true".to_owned());
    let join = (!arguments.join.is_empty()).then(|| arguments.join.join(","));
    let flags = [
        ("--name", "node.name", &arguments.name),
        ("--listen", "listen.default", &arguments.listen),
        ("--redirect-listen", "listen.redirect", &arguments.redirect_listen),
        ("--admin", "admin.address", &arguments.admin),
        ("--peer", "cluster.peer", &arguments.peer),
        ("--advertise", "cluster.advertise", &arguments.advertise),
        ("--join", "cluster.join", &join),
        (
            "--cluster-secret-file",
            "cluster.secret_file",
            &arguments.cluster_secret_file,
        ),
        ("--workers", "node.workers", &arguments.workers),
        ("--lua", "node.lua_dir", &arguments.lua),
        ("--password-file", "auth.password_file", &arguments.password_file),
        ("--insecure", "auth.insecure", &insecure),
        ("--ready-file", "node.ready_file", &arguments.ready_file),
    ];
    Sources {
        file: arguments.config.clone(),
        environment,
        set: arguments.set.clone(),
        flags: flags
            .into_iter()
            .filter_map(|(flag, key, value)| {
                let value = value.clone()?;
                Some(FlagValue { flag, key, value })
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn load(line: &str) -> Result<Config, String> {
        let Command::Serve(arguments) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("not serve");
        };
        Config::load(&sources(&arguments, Vec::new())).map_err(|error| error.to_string())
    }

    #[test]
    fn every_flag_reaches_its_key() {
        let config = load(
            "tollgate serve --name n --listen 127.0.0.1:1 --redirect-listen 127.0.0.1:9 --admin 127.0.0.1:2 --workers 3 --lua / --ready-file /ready \
             --insecure --peer 127.0.0.1:3 --advertise n.example --join a:1 --join [::1]:2 --set limits.connections=4 --set log.format=json",
        )
        .unwrap();
        let value = |path: &str| {
            let (_, value) = config.keys().find(|(key, _)| key.path() == path).unwrap();
            value.to_toml()
        };
        for (path, expected) in [
            ("node.name", "\"n\""),
            ("listen.default", "\"127.0.0.1:1\""),
            ("listen.redirect", "\"127.0.0.1:9\""),
            ("admin.address", "\"127.0.0.1:2\""),
            ("node.workers", "3"),
            ("node.lua_dir", "\"/\""),
            ("node.ready_file", "\"/ready\""),
            ("auth.insecure", "true"),
            ("cluster.peer", "\"127.0.0.1:3\""),
            ("cluster.advertise", "\"n.example\""),
            ("cluster.join", "[\"a:1\", \"[::1]:2\"]"),
            ("limits.connections", "4"),
            ("log.format", "\"json\""),
        ] {
            assert_eq!(value(path), expected, "{path}");
        }
    }

    #[test]
    fn wrong_values_name_the_flag() {
        assert_eq!(
            load("tollgate serve --workers many").unwrap_err(),
            "--workers: node.workers must be a whole number from 0 to 256, not \"many\""
        );
        assert!(
            load("tollgate serve --password-file /nonexistent/p")
                .unwrap_err()
                .starts_with("cannot read /nonexistent/p (auth.password_file): ")
        );
    }
}
