//! Every bound of a node, in one table: its name, its default, what happens when it is hit and which error says so.
//!
//! The table drives the section `[limits]` of the configuration, `--print-config`, and the metric
//! `tollgate_limit_hit_total{limit="..."}`. Some bounds have their key in another section, beside what they belong to, and
//! one cannot be changed.

use crate::config::Kind::{Bytes, Count, Millis};
use crate::config::key::section;
use tollgate_commands::SLOWLOG_ENTRIES_MAX;
use tollgate_limiter::RULES_MAX;
use tollgate_store::SLOTS;

/// What there is to know about one bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundInfo {
    /// Its label in `tollgate_limit_hit_total`.
    pub label: &'static str,
    /// The configuration key that sets it, as `section.name`; empty if nothing can change it.
    pub key: &'static str,
    /// What happens when it is hit.
    pub when_hit: &'static str,
    /// How the error starts that the client gets; empty if it gets none, or a status of HTTP (`when_hit` says which).
    pub error: &'static str,
}

macro_rules! bounds {
    (
        $($(#[doc = $meaning:literal])+
        $field:ident / $bound:ident: $default:expr, $kind:expr, $unit:literal, $when_hit:literal, $error:literal;)*
        elsewhere:
        $($(#[doc = $other_meaning:literal])+
        $other:ident: $label:literal, $key:literal, $other_when_hit:literal, $other_error:literal;)*
    ) => {
        section! {
            /// `[limits]`: the bounds of everything that could grow.
            Limits: "limits" {
                $($(#[doc = $meaning])+ $field: usize = $default, $kind, $unit;)*
            }
        }

        /// A bound, for counting that it was hit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bound {
            $($(#[doc = $meaning])+ $bound,)*
            $($(#[doc = $other_meaning])+ $other,)*
        }

        impl Bound {
            /// All bounds, in the order of their numbers (`bound as usize`).
            pub const ALL: &'static [Bound] = &[$(Bound::$bound,)* $(Bound::$other,)*];

            /// What there is to know about it.
            pub const fn info(self) -> BoundInfo {
                match self {
                    $(Bound::$bound => BoundInfo {
                        label: stringify!($field),
                        key: concat!("limits.", stringify!($field)),
                        when_hit: $when_hit,
                        error: $error,
                    },)*
                    $(Bound::$other => BoundInfo {
                        label: $label,
                        key: $key,
                        when_hit: $other_when_hit,
                        error: $other_error,
                    },)*
                }
            }

            /// How the error starts that the client gets.
            pub const fn error(self) -> &'static str {
                self.info().error
            }
        }
    };
}

/// The longest key in bytes.
pub const KEY_BYTES_MAX: usize = tollgate_store::MAX_KEY_BYTES;

const MIB: usize = 1 << 20;

bounds! {
    /// Client connections at one time.
    connections / Connections: 10_000, Count(1, 1_000_000), "connections",
        "a new connection gets the error and is closed",
        "ERR max number of clients reached";
    /// Arguments of one request.
    request_args / RequestArgs: 1 << 20, Count(16, 1 << 24), "arguments",
        "the client gets the error and is closed",
        "ERR Protocol error: invalid multibulk length";
    /// Bytes of one argument.
    bulk_bytes / BulkBytes: 512 * MIB, Bytes(1 << 16, 1 << 29), "bytes",
        "the client gets the error and is closed",
        "ERR Protocol error: invalid bulk length";
    /// Bytes of one string that is put together by several commands, as by APPEND, and of the arguments of one command of a script, which
    /// may also have as much as its memory.
    string_bytes / StringBytes: 512 * MIB, Bytes(1 << 16, 1 << 29), "bytes",
        "the command gets the error",
        "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    /// Bytes of one inline request, or of the line that announces an array or an argument.
    inline_bytes / InlineBytes: 1 << 16, Bytes(1 << 10, 1 << 24), "bytes",
        "the client gets the error and is closed",
        "ERR Protocol error: too big inline request";
    /// Bytes of one request, all its arguments together.
    request_bytes / RequestBytes: 1_024 * MIB, Bytes(1 << 17, (1 << 32) - 1), "bytes",
        "the client gets the error and is closed",
        "ERR Protocol error: too big request";
    /// Bytes of replies that wait for one client to read them.
    output_bytes / OutputBytes: 64 * MIB, Bytes(1 << 16, 1 << 32), "bytes",
        "the client is closed",
        "";
    /// Batches of commands that wait for one shard; as many again may be under way there, a slice at a time, and as many again wait there
    /// for keys that are held.
    mailbox_batches / MailboxBatches: 1_024, Count(1, 1 << 20), "batches",
        "the commands of the batch get the error",
        "BUSY shard mailbox is full, try again";
    /// Commands of one batch that one worker sends to another's shard.
    batch_commands / BatchCommands: 1_024, Count(1, 1 << 16), "commands",
        "the rest goes as another batch",
        "";
    /// Different combinations of limit, window, burst and policy that one shard remembers at one time.
    interned_limits / InternedLimits: 1_000_000, Count(1, 1 << 24), "combinations",
        "a check with a new combination gets the error",
        "BUSY too many different limits in use";
    /// Keys that one KEYS answers.
    keys_reply / KeysReply: 1_000_000, Count(1, 1 << 32), "keys",
        "the command gets the error",
        "ERR too many keys match, use SCAN";
    /// Scripts that the node knows.
    scripts / Scripts: 100_000, Count(1, 1 << 24), "scripts",
        "SCRIPT LOAD gets the error; what EVAL is given runs, but is not known afterwards",
        "ERR too many scripts";
    /// Bytes of the texts of all scripts that the node knows.
    script_bytes / ScriptBytes: 256 * MIB, Bytes(1 << 16, 1 << 36), "bytes",
        "as with `scripts`",
        "ERR too many scripts";
    /// Scripts of which one worker notes for a moment that no node of the cluster knows them.
    unknown_scripts / UnknownScripts: 1_024, Count(1, 1 << 20), "scripts",
        "all are forgotten, and the other nodes are asked for them again",
        "";
    /// Libraries of functions that the node knows.
    libraries / Libraries: 1_000, Count(1, 1 << 20), "libraries",
        "FUNCTION LOAD and FUNCTION RESTORE get the error, and nothing changes",
        "ERR too many libraries of functions";
    /// Bytes of the texts of all libraries that the node knows, and of names and descriptions of their functions, 256 for each more.
    library_bytes / LibraryBytes: 16 * MIB, Bytes(1 << 16, 1 << 36), "bytes",
        "as with `libraries`",
        "ERR too many libraries of functions";
    /// Compiled scripts and libraries that one worker keeps.
    compiled_scripts / CompiledScripts: 4_096, Count(1, 1 << 20), "scripts",
        "all are dropped and compiled again when they are asked for",
        "";
    /// Bytes of the compiled scripts that one worker keeps.
    compiled_bytes / CompiledBytes: 64 * MIB, Bytes(1 << 20, 1 << 36), "bytes",
        "as with `compiled_scripts`",
        "";
    /// Time for which a command over several keys, a transaction, a script or FLUSHALL waits for its keys before it begins.
    keys_wait_ms / KeysWaitMs: 3_000, Millis(1, 600_000), "ms",
        "nothing is done, and the command gets the error",
        "TRYAGAIN the keys of the command were in use for too long";
    /// Bytes of the commands that one connection has queued between MULTI and EXEC.
    transaction_bytes / TransactionBytes: 64 * MIB, Bytes(1 << 10, (1 << 32) - 1), "bytes",
        "the command gets the error and EXEC refuses the transaction",
        "ERR transaction is too large";
    /// Keys that one connection watches.
    watched_keys / WatchedKeys: 10_000, Count(1, 1 << 20), "keys",
        "WATCH gets the error",
        "ERR too many watched keys";
    /// Channels and patterns that one connection listens to.
    subscriptions / Subscriptions: 100_000, Count(1, 1 << 24), "subscriptions",
        "the command gets the error",
        "ERR too many subscriptions";
    /// Bytes of published messages on their way to the listeners of one worker.
    published_bytes / PublishedBytes: 64 * MIB, Bytes(1 << 16, 1 << 36), "bytes",
        "PUBLISH gets the error, and the message does not go to the listeners of that worker",
        "BUSY subscribers are too far behind";
    /// Bytes of the patterns of one command: of KEYS, SCAN and its like, CONFIG GET or COMMAND LIST.
    pattern_bytes / PatternBytes: 512, Bytes(16, 1 << 12), "bytes",
        "the command gets the error",
        "ERR pattern is longer than";
    /// Random elements that one command answers where one can come again, as SRANDMEMBER with a negative count.
    random_picks / RandomPicks: 1_000_000, Count(1, 1 << 32), "elements",
        "the command gets the error",
        "ERR too many random elements";
    /// Keys that one BLPOP or the like waits for.
    awaited_keys / AwaitedKeys: 10_000, Count(1, 1 << 20), "keys",
        "the command gets the error",
        "ERR too many keys to wait for";
    /// Bytes that one script, or one transaction with scripts, takes to note how what it writes is taken back.
    undo_bytes / UndoBytes: 256 * MIB, Bytes(1 << 16, 1 << 36), "bytes",
        "a script's next write gets the error; what was written before stands, as with any error",
        "ERR too much was written to be taken back";
    /// Entries of SLOWLOG; CONFIG SET slowlog-max-len changes it.
    slowlog_entries / SlowlogEntries: 128, Count(0, SLOWLOG_ENTRIES_MAX as u64), "entries",
        "the oldest entry of the worker is forgotten",
        "";
    /// Rules of the file.
    rules / Rules: RULES_MAX, Count(0, RULES_MAX as u64), "rules",
        "the node does not start",
        "";
    /// Bytes in which one shard lists which entries have changed in slots that other nodes follow.
    changes_bytes / ChangesBytes: tollgate_commands::CHANGES_BYTES_MAX, Bytes(1 << 18, 1 << 32), "bytes",
        "the oldest changes are forgotten; a node that has not seen them copies the slot again",
        "";
    /// Buckets of which one shard notes what it has admitted while another node may not know.
    journal_buckets / JournalBuckets: tollgate_commands::JOURNAL_BUCKETS_MAX, Count(1, 1 << 24), "buckets",
        "what is admitted from more buckets may be admitted once more by another node",
        "";
    /// Slots that one worker copies to other nodes at one time.
    slot_copies / SlotCopies: 128, Count(1, SLOTS as u64), "slots",
        "others are copied after them",
        "";
    /// Bytes of copies of slots that one worker has sent to other nodes and that these have not acknowledged.
    slot_copy_bytes / SlotCopyBytes: 4 * MIB, Bytes(1 << 16, 1 << 32), "bytes",
        "as with `slot_copies`",
        "";
    /// Slots of one worker whose commands wait, at one time, while they are handed over to other nodes.
    slot_moves / SlotMoves: 64, Count(1, SLOTS as u64), "slots",
        "others are handed over after them",
        "";
    /// Bytes of one frame between nodes. Messages of slots and batches of commands are kept below it.
    peer_frame_bytes / PeerFrameBytes: 16 * MIB, Bytes(1 << 16, 1 << 26), "bytes",
        "the message is not sent, a peer that sends a longer one is closed; of replies that are more together, the last are an error",
        "ERR the replies of another node are too large to be sent together; the command was done";
    /// Bytes of frames that wait for one worker of a peer to take them.
    peer_queue_bytes / PeerQueueBytes: 64 * MIB, Bytes(1 << 16, 1 << 32), "bytes",
        "requests to it fail as if it did not answer; a peer that does not take its answers is closed",
        "";
    /// Requests to one worker of a peer that wait for their answers.
    peer_requests / PeerRequests: 16_384, Count(16, 1 << 20), "requests",
        "requests to it fail as if it did not answer; from a peer with as many under way no more are read",
        "";
    /// Connections of peers that shake hands at one time.
    peer_handshakes / PeerHandshakes: 256, Count(1, 1 << 16), "connections",
        "a new connection to the peer listener is closed",
        "";
    /// Keys of one worker that are lent to runs of other nodes at one time, or wanted by such; as many again are watched, or waited for, by
    /// clients of other nodes.
    lent_keys / LentKeys: 100_000, Count(1, 1 << 24), "keys",
        "nothing is done, and a command of another node that wants more gets the error",
        "BUSY too many keys are lent to other nodes";
    /// Bytes of one key that is lent to a run of another node; half of `peer_frame_bytes` if that is less.
    lent_key_bytes / LentKeyBytes: 4 * MIB, Bytes(1 << 10, 1 << 25), "bytes",
        "nothing is done, and the command of the other node gets the error",
        "ERR a key is too large to be lent to another node";
    /// Time for which keys are lent to a run of another node, its wait for others included.
    lent_ms / LentMs: 10_000, Millis(10, 3_600_000), "ms",
        "the keys are free again as they were; if the run writes to them after all, its command gets the error",
        "CLUSTERDOWN a node that has lent keys has not taken them back";
    /// Connections to the admin listener at one time.
    admin_connections / AdminConnections: 64, Count(1, 65_535), "connections",
        "a new connection gets status 503 and is closed",
        "";
    /// Bytes of the head of a request to the admin listener.
    admin_head_bytes / AdminHeadBytes: 1 << 14, Bytes(1 << 13, 1 << 20), "bytes",
        "the request gets status 431",
        "";
    /// Bytes of the body of a request to the admin listener.
    admin_body_bytes / AdminBodyBytes: 1 << 16, Bytes(1 << 10, 1 << 24), "bytes",
        "the request gets status 413",
        "";
    /// Time for a request to the admin listener to arrive, to be answered, and for its answer to be taken.
    admin_request_ms / AdminRequestMs: 5_000, Millis(10, 600_000), "ms",
        "the request gets status 408 or 503, or the connection is closed",
        "";
    elsewhere:
    /// Bytes of one key: [`KEY_BYTES_MAX`], which the layout of an entry sets.
    KeyBytes: "key_bytes", "",
        "the command gets the error",
        "ERR key is longer than 65535 bytes";
    /// Time of one check in a policy.
    PolicyBudget: "policy_budget_us", "policy.budget_us",
        "the check gets the error, with the policy's name and the budget; its bucket stays as it was",
        "ERR policy";
    /// Memory that one check may add in a policy.
    PolicyMemory: "policy_memory_bytes", "policy.memory_bytes",
        "the check gets the error, with the policy's name and the cap; its bucket stays as it was",
        "ERR policy";
    /// CPU time of one run of a script.
    ScriptBudget: "script_budget_ms", "script.budget_ms",
        "the script is ended, what it wrote is taken back, and its client gets the error",
        "ERR Script stopped after its budget";
    /// Time that one run of a script may spend in something that cannot be interrupted, such as a command over many keys or elements.
    ScriptStep: "script_step_ms", "script.step_ms",
        "the script is ended, what it wrote is taken back, and its client gets the error",
        "ERR Script stopped after";
    /// Memory that one run of a script may add.
    ScriptMemory: "script_memory_bytes", "script.memory_bytes",
        "the script is ended, what it wrote is taken back, and its client gets the error",
        "ERR Script needs more memory";
    /// Bytes of keys and buckets that the node keeps.
    MaxMemory: "max_memory_bytes", "storage.max_memory_bytes",
        "by storage.when_full: the fullest buckets are dropped, or the command that needs memory gets the error",
        "OOM command not allowed when used memory > 'maxmemory'.";
}

impl Bound {
    /// How many bounds there are.
    pub const COUNT: usize = Self::ALL.len();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Value};

    #[test]
    fn every_bound_has_a_key_and_a_number() {
        let keys: Vec<String> = Config::default().keys().map(|(key, _)| key.path()).collect();
        for (number, bound) in Bound::ALL.iter().enumerate() {
            assert_eq!(*bound as usize, number);
            let info = bound.info();
            assert!(
                info.key.is_empty() || keys.iter().any(|key| key == info.key),
                "{}",
                info.key
            );
            assert!(!info.when_hit.is_empty());
        }
        let labels: std::collections::BTreeSet<_> = Bound::ALL.iter().map(|bound| bound.info().label).collect();
        assert_eq!(labels.len(), Bound::COUNT);
    }

    #[test]
    fn every_limit_is_a_bound() {
        for key in Limits::KEYS {
            assert!(
                Bound::ALL.iter().any(|bound| bound.info().key == key.path()),
                "{} is not in the table",
                key.name
            );
        }
    }

    #[test]
    fn errors_start_with_a_prefix_that_clients_know() {
        for bound in Bound::ALL {
            let error = bound.error();
            let prefix = error.split(' ').next().unwrap_or_default();
            assert!(
                ["", "ERR", "BUSY", "OOM", "TRYAGAIN", "CLUSTERDOWN"].contains(&prefix),
                "{error}"
            );
            assert!(!error.contains(['\r', '\n']));
        }
    }

    /// The table of docs/operations.md.
    fn table() -> String {
        let config = Config::default();
        let mut table = String::from("| bound | default | when it is hit | error |\n|---|---|---|---|\n");
        for bound in Bound::ALL {
            let info = bound.info();
            let key = config.keys().find(|(key, _)| key.path() == info.key);
            let default = match &key {
                Some((_, Value::Number(0))) => "none".to_owned(),
                Some((key, value)) => format!("{value} {}", key.unit),
                None => format!("{KEY_BYTES_MAX} bytes, fixed"),
            };
            let name = match info.key.strip_prefix("limits.") {
                Some(_) => format!("`{}`", info.label),
                None if info.key.is_empty() => format!("`{}`", info.label),
                None => format!("`{}` (key `{}`)", info.label, info.key),
            };
            let error = if info.error.is_empty() {
                String::new()
            } else {
                format!("`{}`", info.error)
            };
            table.push_str(&format!("| {name} | {default} | {} | {error} |\n", info.when_hit));
        }
        table
    }

    #[test]
    fn the_operators_table_lists_every_bound() {
        let table = table();
        assert!(
            include_str!("../../../docs/operations.md").contains(&table),
            "write this:\n{table}"
        );
    }
}
