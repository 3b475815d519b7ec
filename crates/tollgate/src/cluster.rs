//! `tollgate cluster`: how a cluster is, and a member that gives its slots away.

mod table;

use crate::cli::{AdminArguments, ClusterCommand, DrainArguments, StatusArguments};
use crate::http;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tollgate_node::admin::ClusterReport;
use tollgate_node::config::Password;

/// Exit status when the cluster is not settled, or a member has not given everything away.
const NOT_YET: u8 = 1;
/// Exit status when nothing could be found out, or done.
const ERROR: u8 = 2;
/// How often the node is asked again while one waits.
const AGAIN: Duration = Duration::from_millis(200);

type Failure = Box<dyn std::error::Error>;

/// Runs a subcommand.
pub fn run(command: &ClusterCommand) -> ExitCode {
    let done = match command {
        ClusterCommand::Status(arguments) => status(arguments),
        ClusterCommand::Drain(arguments) => drain(arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOT_YET),
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::from(ERROR)
        }
    }
}

/// Prints how the cluster is, and answers whether it is settled.
fn status(arguments: &StatusArguments) -> Result<bool, Failure> {
    let node = Node::new(&arguments.admin)?;
    let report = node.until(arguments.wait, |report| report.settled)?;
    match arguments.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => print!("{}", table::render(&report)),
    }
    Ok(report.settled)
}

/// Has a member give its slots away; answers whether it has, if that is to be waited for.
fn drain(arguments: &DrainArguments) -> Result<bool, Failure> {
    let node = Node::new(&arguments.admin)?;
    let order = serde_json::json!({"name": arguments.name, "undo": arguments.undo});
    node.request("POST", "/v1/cluster/drain", &order.to_string())?;
    let name = &arguments.name;
    let Some(wait) = arguments.wait else {
        match arguments.undo {
            true => println!("{name} takes slots again"),
            false => println!("{name} gives its slots away"),
        }
        return Ok(true);
    };
    let is_done = |report: &ClusterReport| {
        let mut members = report.members.iter();
        let member = members.find(|member| member.name == *name);
        member.is_some_and(|member| match arguments.undo {
            true => member.state == "ready" && report.settled,
            false => member.state == "leaving" && member.slots.as_ref().is_some_and(|slots| slots.drained),
        })
    };
    let report = node.until(Some(wait), is_done)?;
    let done = is_done(&report);
    match (arguments.undo, done) {
        (true, true) => println!("{name} has its share of the slots"),
        (false, true) => println!("{name} holds no slot and owes nothing"),
        (_, false) => print!("{}", table::render(&report)),
    }
    Ok(done)
}

/// The node that is asked.
struct Node {
    addr: String,
    password: Option<Password>,
}

impl Node {
    fn new(arguments: &AdminArguments) -> Result<Self, Failure> {
        let file = arguments
            .password_file
            .as_deref()
            .filter(|path| !path.as_os_str().is_empty());
        Ok(Self {
            addr: arguments.admin.clone(),
            password: file.map(|path| Password::read(path, "--password-file")).transpose()?,
        })
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Result<Vec<u8>, Failure> {
        let answer = http::request(&self.addr, self.password.as_ref(), method, path, body)?;
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let reason = json["error"]["reason"].as_str();
        let hint = match answer.status {
            401 => ". Give it with --password-file FILE",
            _ => "",
        };
        Err(match reason {
            Some(reason) => format!("{} answered: {reason}{hint}", self.addr),
            None => format!("{} answered with status {}", self.addr, answer.status),
        }
        .into())
    }

    fn report(&self) -> Result<ClusterReport, Failure> {
        let body = self.request("GET", "/v1/cluster", "")?;
        serde_json::from_slice(&body)
            .map_err(|error| format!("{} does not answer as a node of tollgate: {error}", self.addr).into())
    }

    /// Asks until the answer is as it should be or that many seconds are over, and answers with the last one.
    fn until(&self, seconds: Option<u64>, is_good: impl Fn(&ClusterReport) -> bool) -> Result<ClusterReport, Failure> {
        let deadline = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
        loop {
            // Who waits may wait for a node to start, too.
            let report = self.report();
            let is_over = Instant::now() >= deadline;
            match report {
                Ok(report) if is_over || is_good(&report) => return Ok(report),
                Err(error) if is_over => return Err(error),
                _ => std::thread::sleep(AGAIN.min(deadline.saturating_duration_since(Instant::now()))),
            }
        }
    }
}
