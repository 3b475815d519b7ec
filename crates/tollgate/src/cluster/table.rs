//! How a cluster is, for people: at most 100 columns.

use std::fmt::Write as _;
use tollgate_node::admin::{ClusterReport, MemberReport, SlotsReport};

/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 12;
/// Characters of an address that are shown.
const ADDRESS_CHARS_MAX: usize = 21;

/// The report as text.
pub fn render(report: &ClusterReport) -> String {
    let settled = match report.settled {
        true => "settled",
        false => "not settled",
    };
    let mut text = format!(
        "{settled}: {} members, view {} as {} has it\n\n",
        report.members.len(),
        report.view,
        name_of(&report.node)
    );
    text.push_str(&rows(&slots_table(report)));
    text.push('\n');
    for member in &report.members {
        write_member(&mut text, member);
    }
    let notes = notes(report);
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text.push_str(&note);
        text.push('\n');
    }
    text
}

/// Who has which slots, and how they are followed.
fn slots_table(report: &ClusterReport) -> Vec<[String; 9]> {
    let heads = [
        "name", "state", "view", "slots", "moves", "epoch", "replicas", "lag", "owed",
    ];
    let mut table = vec![heads.map(str::to_owned)];
    for member in &report.members {
        let view = match &member.view {
            Some(view) if *view == report.view => "same",
            Some(_) => "other",
            None => "?",
        };
        let slots = match &member.slots {
            Some(slots) => slots_columns(slots),
            None => std::array::from_fn(|_| "?".to_owned()),
        };
        let [held, moves, epoch, replicas, lag, owed] = slots;
        let (name, state) = (name_of(&member.name), member.state.clone());
        table.push([name, state, view.to_owned(), held, moves, epoch, replicas, lag, owed]);
    }
    for dead in &report.dead {
        let mut row = std::array::from_fn(|_| String::new());
        [row[0], row[1]] = [name_of(&dead.name), "dead".to_owned()];
        table.push(row);
    }
    table
}

fn slots_columns(slots: &SlotsReport) -> [String; 6] {
    let moves = match (slots.to_move, slots.moving) {
        (0, 0) => "-".to_owned(),
        // So many are left, of which so many are under way.
        (left, under_way) => format!("{left} ({under_way})"),
    };
    let owed = match slots.journal_buckets {
        0 => "-".to_owned(),
        // So many tokens, of so many keys.
        buckets => format!("{}/{buckets}", slots.journal_tokens),
    };
    [
        format!("{}/{}", slots.held, slots.target),
        moves,
        slots.epoch_max.to_string(),
        // What it follows of others, and how many of these are in step.
        format!("{}/{}", slots.replicas_in_step, slots.replicas),
        format!("{} ms", slots.lag_us.div_ceil(1_000)),
        owed,
    ]
}

/// Who it is, and where.
fn write_member(text: &mut String, member: &MemberReport) {
    let address = |address: &str| shorten(address, ADDRESS_CHARS_MAX);
    let version = member.version.as_deref().unwrap_or("?");
    let workers = match member.workers {
        1 => "1 worker".to_owned(),
        workers => format!("{workers} workers"),
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}: version {}, generation {}, {workers}, weight {}",
        name_of(&member.name),
        shorten(version, NAME_CHARS_MAX),
        member.generation,
        member.weight
    );
    let _ = write!(
        text,
        "  peers {}, clients {}",
        address(&member.peer),
        address(&member.listen)
    );
    if let Some(redirecting) = &member.redirect_listen {
        let _ = write!(text, ", redirecting {}", address(redirecting));
    }
    text.push('\n');
}

/// What is worth a line of its own.
fn notes(report: &ClusterReport) -> Vec<String> {
    let mut notes = Vec::new();
    for member in &report.members {
        let name = name_of(&member.name);
        if let Some(view) = member.view.as_ref().filter(|view| **view != report.view) {
            notes.push(format!("{name} has the view {}", shorten(view, 16)));
        }
        let Some(slots) = &member.slots else {
            notes.push(format!(
                "{name} does not answer; gossip heard it {} ms ago",
                member.silent_ms
            ));
            continue;
        };
        for (peer, state) in &slots.circuits {
            notes.push(format!(
                "circuit of {name} to {}: {}",
                name_of(peer),
                shorten(state, NAME_CHARS_MAX)
            ));
        }
        for (count, what) in [
            (u64::from(slots.unknown), "slots that it knows no holder of"),
            (u64::from(slots.copies_waiting), "slots that wait to be copied"),
            (
                slots.journal_unacknowledged,
                "keys with debts that are sent and not acknowledged",
            ),
            (slots.journal_dropped, "tokens forgotten since its journals were full"),
        ] {
            if count > 0 {
                notes.push(format!("{name}: {count} {what}"));
            }
        }
    }
    for dead in &report.dead {
        let seconds = dead.silent_ms / 1_000;
        notes.push(format!("{} is dead: heard {seconds} s ago", name_of(&dead.name)));
    }
    notes
}

fn name_of(name: &str) -> String {
    shorten(name, NAME_CHARS_MAX)
}

/// At most so many characters, on one line.
fn shorten(text: &str, chars_max: usize) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    if text.chars().count() <= chars_max {
        return text.chars().map(clean).collect();
    }
    text.chars().take(chars_max - 1).map(clean).chain(['…']).collect()
}

/// Columns as wide as they must be, two blanks apart.
fn rows<const N: usize>(table: &[[String; N]]) -> String {
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in table {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a string does not fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_node::admin::DeadReport;

    fn member(name: &str, slots: Option<SlotsReport>) -> MemberReport {
        MemberReport {
            name: name.to_owned(),
            generation: 1_700_000_000_000,
            state: match slots {
                Some(_) => "ready".to_owned(),
                None => "suspect".to_owned(),
            },
            weight: 1,
            workers: 2,
            peer: "127.0.0.1:7379".to_owned(),
            listen: "127.0.0.1:6379".to_owned(),
            redirect_listen: None,
            silent_ms: 712,
            version: slots.as_ref().map(|_| "0.1.0".to_owned()),
            view: slots.as_ref().map(|_| "00000000000000ab".to_owned()),
            slots,
        }
    }

    fn report(members: Vec<MemberReport>) -> ClusterReport {
        ClusterReport {
            node: "a".to_owned(),
            view: "00000000000000ab".to_owned(),
            settled: false,
            members,
            dead: Vec::new(),
        }
    }

    #[test]
    fn a_cluster_reads_as_a_table_its_members_and_what_is_amiss() {
        let slots = SlotsReport {
            held: 8200,
            target: 8192,
            to_move: 8,
            moving: 3,
            epoch_max: 4,
            replicas: 8192,
            replicas_in_step: 8190,
            lag_us: 20_150,
            journal_buckets: 2,
            journal_tokens: 7,
            circuits: [("b".to_owned(), "open".to_owned())].into(),
            ..SlotsReport::default()
        };
        let mut report = report(vec![member("a", Some(slots)), member("b", None)]);
        report.members[0].redirect_listen = Some("127.0.0.1:6380".to_owned());
        report.dead.push(DeadReport {
            name: "c".to_owned(),
            generation: 1,
            silent_ms: 61_000,
        });
        let expected = "\
not settled: 2 members, view 00000000000000ab as a has it

name  state    view  slots      moves  epoch  replicas   lag    owed
a     ready    same  8200/8192  8 (3)  4      8190/8192  21 ms  7/2
b     suspect  ?     ?          ?      ?      ?          ?      ?
c     dead

a: version 0.1.0, generation 1700000000000, 2 workers, weight 1
  peers 127.0.0.1:7379, clients 127.0.0.1:6379, redirecting 127.0.0.1:6380
b: version ?, generation 1700000000000, 2 workers, weight 1
  peers 127.0.0.1:7379, clients 127.0.0.1:6379

circuit of a to b: open
b does not answer; gossip heard it 712 ms ago
c is dead: heard 61 s ago
";
        assert_eq!(render(&report), expected);
    }

    #[test]
    fn what_is_long_still_fits_into_100_columns() {
        let slots = SlotsReport {
            held: 16_384,
            target: 16_384,
            to_move: 10_000,
            moving: 128,
            unknown: 16_384,
            epoch_max: 999_999,
            followed: 16_384,
            replicas: 16_384,
            replicas_in_step: 16_384,
            copies_waiting: 16_384,
            lag_us: 9_999_999,
            journal_buckets: 99_999,
            journal_tokens: 9_999_999,
            journal_unacknowledged: 99_999,
            journal_dropped: u64::MAX,
            drained: false,
            circuits: [("x".repeat(200), "probing".to_owned())].into(),
        };
        let mut long = member(&"n\n".repeat(100), Some(slots));
        let address = "a-rather-long-host-name.of.some.example:65535";
        (long.peer, long.listen) = (address.to_owned(), address.to_owned());
        long.redirect_listen = Some(address.to_owned());
        (long.workers, long.weight) = (256, 100);
        long.view = Some("ffffffffffffffff".to_owned());
        let text = render(&report(vec![long, member("b", None)]));
        assert!(text.lines().count() > 10);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{}: {line}", line.chars().count());
        }
    }
}
