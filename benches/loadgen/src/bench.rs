//! What the benches that start servers have in common: arguments, the build before the first run, the head of the report, the
//! exit code.

use crate::servers::{TollgateOptions, build_tollgate};
use crate::{Result, machine};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of every such bench.
#[derive(Debug, clap::Args)]
pub struct ServerArguments {
    /// The tollgate binary; without it, the workspace's release build is brought up to date.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// More arguments of `tollgate serve`.
    #[arg(long, allow_hyphen_values = true)]
    serve: Vec<String>,
    /// What cargo says to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

impl ServerArguments {
    /// Brings Tollgate up to date if a run needs it, and begins the report: its title, and the conditions of the machine.
    ///
    /// # Errors
    /// Tollgate cannot be built.
    pub fn begin(&self, title: &str, needs_tollgate: bool) -> Result<TollgateOptions> {
        let options = TollgateOptions {
            binary: self.binary.clone(),
            arguments: self.serve.clone(),
        };
        if needs_tollgate {
            build_tollgate(&options)?;
        }
        println!("# {title}\n");
        for line in machine::conditions() {
            println!("- {line}");
        }
        Ok(options)
    }
}

/// Says why a bench failed, if it did, and with which code to exit.
pub fn exit_code(title: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{title}: {error}");
            ExitCode::FAILURE
        }
    }
}
