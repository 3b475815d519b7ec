//! Runs of libraries that are being loaded: they reach no key, and what they say takes effect in the end.

use super::{Program, ScriptBound, ScriptRun, ScriptStep, bound_of};
use crate::CommandError;
use crate::node_view::NodeView;
use crate::scripts::host::ScriptHost;
use crate::scripts::wire::write_error;
use std::time::Duration;
use tollgate_eval::{KillReason, Outcome};
use tollgate_protocol::{ReplyWriter, Request};

impl ScriptRun {
    /// Runs a slice.
    pub(super) fn load_slice(
        &mut self,
        host: &ScriptHost,
        node: &dyn NodeView,
        request: Request<'_>,
        out: &mut Vec<u8>,
        slice: Duration,
    ) -> ScriptStep {
        match self.load_some(host, node, out, slice) {
            Ok(true) => return ScriptStep::Done,
            Ok(false) => {}
            Err(text) => {
                write_error(&mut ReplyWriter::new(out, self.env.proto), &text);
                return ScriptStep::Done;
            }
        }
        self.note_running(node, request);
        ScriptStep::Yield
    }

    /// Whether that was all, or the text of an error.
    fn load_some(
        &mut self,
        host: &ScriptHost,
        node: &dyn NodeView,
        out: &mut Vec<u8>,
        slice: Duration,
    ) -> Result<bool, Vec<u8>> {
        let stopped = self.stopped(host);
        let Program::Load(loading) = &mut self.program else {
            return Ok(true);
        };
        let run = match self.run.take() {
            Some(run) => Some(run),
            None => loading.start(&host.engine).map_err(text)?,
        };
        if let Some(mut run) = run {
            if let Some(reason) = stopped {
                if let KillReason::Budget(_) = reason {
                    self.hit = Some(ScriptBound::Budget);
                }
                return Err(loading.killed(&run.kill(reason)));
            }
            let outcome = run.resume(&mut loading.host(), slice);
            match outcome {
                Outcome::Yielded => {
                    self.run = Some(run);
                    return Ok(false);
                }
                Outcome::Finished => loading.finish().map_err(text)?,
                Outcome::Failed(error) => {
                    self.hit = bound_of(error.failure);
                    return Err(loading.failed(node.functions(), error));
                }
                // It has asked for no key.
                Outcome::Retry => return Err(text(CommandError::TryAgain)),
            }
            if loading.has_more() {
                return Ok(false);
            }
        }
        let mut reply = ReplyWriter::new(out, self.env.proto);
        let change = loading.take_effect(node.functions(), &mut reply).map_err(text)?;
        self.library_change = Some(change);
        Ok(true)
    }
}

fn text(error: CommandError) -> Vec<u8> {
    error.to_string().into_bytes()
}
