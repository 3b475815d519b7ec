//! Subcommands and flags. What is listed here works.

use clap::builder::UnknownArgumentValueParser;
use clap::{ArgGroup, Args, Parser, Subcommand};
use std::path::PathBuf;

/// A rate limiter that speaks the Redis protocol.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node
    ///
    /// With no flags: a standalone node, Redis protocol on 127.0.0.1:6379, admin HTTP on 127.0.0.1:8379.
    /// Flags come first, then the environment (TOLLGATE_SECTION_KEY), then the file, then the defaults.
    Serve(ServeArguments),
    /// Ask a running node for one decision
    ///
    /// Exit status: 0 allowed, 1 denied, 2 error.
    Check(CheckArguments),
    /// Say how a cluster is, or have a node give its slots away
    #[command(subcommand)]
    Cluster(ClusterCommand),
}

/// What there is to do with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the members, their slots, and what is on its way
    ///
    /// Exit status: 0 settled (all members answer and have the same view, nobody is joining, every slot is where it belongs), 1 not settled,
    /// 2 error.
    Status(StatusArguments),
    /// Have a node give its slots to the others; it goes on running and answering
    ///
    /// Any node may be asked. Exit status: 0 it has begun (with --wait: it holds nothing and owes nothing), 1 not so in time, 2 error.
    Drain(DrainArguments),
}

/// Flags of `tollgate cluster status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Wait until the cluster is settled, so long at most
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u64>,
    /// Whom to ask.
    #[command(flatten)]
    pub admin: AdminArguments,
}

/// Flags of `tollgate cluster drain`.
#[derive(Debug, Args)]
pub struct DrainArguments {
    /// The name of the node
    pub name: String,
    /// Let it take its share of the slots again
    #[arg(long)]
    pub undo: bool,
    /// Wait until that is done, so long at most
    #[arg(long, value_name = "SECONDS")]
    pub wait: Option<u64>,
    /// Whom to ask.
    #[command(flatten)]
    pub admin: AdminArguments,
}

/// How to reach a node's admin listener.
#[derive(Debug, Args)]
pub struct AdminArguments {
    /// Admin address of any node of the cluster
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:8379",
        env = "TOLLGATE_ADMIN_ADDRESS",
        hide_env_values = true
    )]
    pub admin: String,
    /// File with the node's password
    #[arg(
        long,
        value_name = "FILE",
        env = "TOLLGATE_AUTH_PASSWORD_FILE",
        hide_env_values = true
    )]
    pub password_file: Option<PathBuf>,
}

/// Flags of `tollgate serve`. Values are checked by the configuration, which all sources share.
#[derive(Debug, Default, Args)]
pub struct ServeArguments {
    /// Configuration file, as cluster.toml [environment: TOLLGATE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Name of this node [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Address for clients that speak the Redis protocol [default: 127.0.0.1:6379]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// What other servers call it; there is none, for the error to name the one there is.
    #[arg(long, hide = true, value_parser = UnknownArgumentValueParser::suggest_arg("--listen")
        .and_suggest("an address is one value, host and port: --listen 127.0.0.1:6379"))]
    pub port: Option<String>,
    /// Address for clients of Redis Cluster, which are sent to the node that has a key [default: none]
    #[arg(long, value_name = "ADDR")]
    pub redirect_listen: Option<String>,
    /// Address of the admin HTTP listener [default: 127.0.0.1:8379]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Address for other nodes, TCP and UDP on one number; `off` for none [default: 127.0.0.1:7379, if it is free]
    #[arg(long, value_name = "ADDR")]
    pub peer: Option<String>,
    /// Host that other nodes are told to reach this one at [default: the one of --peer]
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<String>,
    /// Peer address of a node whose cluster to join; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub join: Vec<String>,
    /// File with the secret that the nodes of the cluster share
    #[arg(long, value_name = "FILE")]
    pub cluster_secret_file: Option<String>,
    /// Worker threads [default: one a core]
    #[arg(long, value_name = "N")]
    pub workers: Option<String>,
    /// Directory of policy files to load beside the built-in ones
    #[arg(long, value_name = "DIR")]
    pub lua: Option<String>,
    /// File with the password that clients must give
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<String>,
    /// Set any configuration key; may be repeated
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Listen beyond loopback even without a password or a cluster secret
    #[arg(long)]
    pub insecure: bool,
    /// File that gets one JSON object with the addresses once the node serves
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<String>,
    /// Print every configuration key with its value, default, unit and meaning, and exit
    #[arg(long)]
    pub print_config: bool,
}

/// Flags of `tollgate check`.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("against").args(["limit", "rule"]).required(true),
    override_usage = "tollgate check <KEY> --limit <N> --per <DURATION> [OPTIONS]\n       \
                      tollgate check <KEY> --rule <ID> [OPTIONS]"
)]
pub struct CheckArguments {
    /// The key to check
    pub key: String,
    /// Tokens per window
    #[arg(long, value_name = "N", requires = "per")]
    pub limit: Option<u64>,
    /// The window: 250ms, 10s, 1m, 1h, 30d
    #[arg(long, value_name = "DURATION", requires = "limit")]
    pub per: Option<String>,
    /// Tokens to take; 0 takes none
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cost: u64,
    /// Capacity of the bucket [default: the policy's, usually the limit]
    #[arg(long, value_name = "N")]
    pub burst: Option<u64>,
    /// The policy [default: token_bucket]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Check against this rule of the node instead of a limit
    #[arg(long, value_name = "ID", conflicts_with_all = ["limit", "per", "burst", "policy"])]
    pub rule: Option<String>,
    /// Look without taking anything
    #[arg(long)]
    pub peek: bool,
    /// Address of the node
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:6379",
        env = "TOLLGATE_LISTEN_DEFAULT",
        hide_env_values = true
    )]
    pub addr: String,
    /// File with the node's password
    #[arg(
        long,
        value_name = "FILE",
        env = "TOLLGATE_AUTH_PASSWORD_FILE",
        hide_env_values = true
    )]
    pub password_file: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_rule_takes_the_place_of_a_limit() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("tollgate check k --limit 100 --per 1m --cost 2 --burst 5 --policy leaky_bucket").is_ok());
        assert!(parse("tollgate check k --rule free --peek").is_ok());
        assert!(parse("tollgate cluster status --json --wait 10 --admin h:1").is_ok());
        assert!(parse("tollgate cluster drain b --undo --password-file f").is_ok());
        for bad in [
            "tollgate",
            "tollgate rules",
            "tollgate check k",
            "tollgate check k --limit 100",
            "tollgate check k --per 1m",
            "tollgate check k --per 1m --rule free",
            "tollgate check k --limit 1.5 --per 1m",
            "tollgate check k --limit 100 --per 1m --rule free",
            "tollgate serve --peers 127.0.0.1:7379",
            "tollgate cluster",
            "tollgate cluster drain",
            "tollgate cluster status --wait soon",
        ] {
            assert_eq!(parse(bad).unwrap_err().exit_code(), 2, "{bad}");
        }
        let text = parse("tollgate serve --port 6379").unwrap_err().to_string();
        assert!(
            text.contains("--port") && text.contains("--listen 127.0.0.1:6379"),
            "{text}"
        );
        let text = parse("tollgate check k").unwrap_err().to_string();
        for word in ["--limit <N>", "--per <DURATION>", "--rule <ID>"] {
            assert!(text.contains(word), "{text}");
        }
    }
}
