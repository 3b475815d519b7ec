//! What is refused when a file is loaded, and with which words; replacing files; directories.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use support::{BYTES, COUNTER, check_body, fresh, host, params, run, source};
use tollgate_script::{
    Batch, BurstRule, Fields, POLICY_SOURCE_BYTES_MAX, Params, PolicyHost, PolicyLimits, Replaced, State, StateIn,
    Stored, builtin_policies, load_dir,
};

/// The error for a file `p.lua` of this text.
fn refused(text: &str) -> String {
    PolicyHost::new(&[source("p", text)], PolicyLimits::default())
        .expect_err(text)
        .to_string()
}

#[test]
fn what_is_no_policy_is_refused_in_words() {
    let good = check_body("return true, 1, 0, level");
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let cases = [
        ("return {".to_owned(), "p.lua: line 1: "),
        ("\n\nlocal x = = 1".to_owned(), "p.lua: line 3: "),
        ("".to_owned(), "p.lua: returns nothing where a table is expected"),
        ("return 7".to_owned(), "p.lua: returns 7 where a table is expected"),
        ("error('no')".to_owned(), "p.lua: line 1: no"),
        ("error({})".to_owned(), "p.lua: "),
        (
            "local x = nil; return x.y".to_owned(),
            "p.lua: line 1: attempt to index nil",
        ),
        (
            "while true do end".to_owned(),
            "p.lua: loading it takes longer than 100 ms",
        ),
        (
            "local t = {} for i = 1, 1e9 do t[i] = i end".to_owned(),
            "p.lua: loading it needs more memory",
        ),
        (
            with("version = 1,", ""),
            "p.lua: `version` is missing: a positive integer",
        ),
        (
            with("version = 1,", "version = 0,"),
            "p.lua: `version` is 0 where a positive integer is expected",
        ),
        (with("version = 1,", "version = 1.5,"), "p.lua: `version` is 1.5 where"),
        (
            with("version = 1,", "version = '1',"),
            "p.lua: `version` is \"1\" where",
        ),
        (
            with("fields = { 'level' },", ""),
            "p.lua: `fields` is missing: a list of 1 to 4 names or \"buffer\"",
        ),
        (
            with("{ 'level' }", "{}"),
            "p.lua: `fields` must be a list of 1 to 4 names",
        ),
        (
            with("{ 'level' }", "{ 'a', x = 'b' }"),
            "p.lua: `fields` must be a list of 1 to 4 names",
        ),
        (
            with("{ 'level' }", "{ 'a', 'b', 'c', 'd', 'e' }"),
            "p.lua: `fields` has 5 names; a state has at most 4",
        ),
        (
            with("{ 'level' }", "{ 'a', 2 }"),
            "p.lua: `fields[2]` is 2 where a name is expected",
        ),
        (with("{ 'level' }", "{ 'a', 'a' }"), "p.lua: `fields` names \"a\" twice"),
        (with("{ 'level' }", "'numbers'"), "p.lua: `fields` is \"numbers\" where"),
        (
            with("burst = 'limit',", ""),
            "p.lua: `burst` is missing: \"limit\", \"none\" or a whole number of tokens",
        ),
        (with("'limit'", "'most'"), "p.lua: `burst` is \"most\" where"),
        (with("'limit'", "0"), "p.lua: `burst` is 0 where"),
        (
            with("version = 1,", "version = 1, max_limit = 0,"),
            "p.lua: `max_limit` is 0 where a positive integer is expected",
        ),
        (
            with("version = 1,", "version = 1, max_limit = 'many',"),
            "p.lua: `max_limit` is \"many\" where",
        ),
        (with("check =", "chekc ="), "p.lua: unknown member \"chekc\""),
        (with("version = 1,", "version = 1, [7] = 1,"), "p.lua: unknown member 7"),
        (
            with("full_at = function(limit, level) return 0 end", ""),
            "p.lua: `full_at` is missing: a function",
        ),
        (
            with("version = 1,", "version = 1, give = 3,"),
            "p.lua: `give` is 3 where a function is expected",
        ),
        (
            with("version = 1,", "version = 1, merge = {},"),
            "p.lua: `merge` is a table where a function is expected",
        ),
        (
            with("version = 1,", "version = 1, max_bytes = function() return 1 end,"),
            "p.lua: `max_bytes` is only for `fields = \"buffer\"`",
        ),
        (
            with("{ 'level' }", "'buffer'"),
            "p.lua: `max_bytes` is missing: a function, since `fields` is \"buffer\"",
        ),
        (
            format!("--{}", "x".repeat(POLICY_SOURCE_BYTES_MAX)),
            "p.lua: 65538 bytes; a policy may have 65536",
        ),
    ];
    for (text, expected) in cases {
        let error = refused(&text);
        assert!(error.starts_with(expected), "{error}\n  is not\n{expected}");
        assert!(!error.contains('\n'), "one line: {error}");
    }
    PolicyHost::new(&[source("p", &good)], PolicyLimits::default()).unwrap();
}

#[test]
fn names_are_checked() {
    for name in ["", "a b", "ä", &"x".repeat(65), "a.b"] {
        let sources = [source(name, COUNTER)];
        let error = PolicyHost::new(&sources, PolicyLimits::default()).unwrap_err();
        assert!(error.to_string().contains("a policy's name has"), "{error}");
    }
}

#[test]
fn a_policy_says_what_it_is() {
    let mut host = host(&[("counter", COUNTER), ("bytes", BYTES)]);
    let info = host.info(host.policy(b"counter").unwrap()).clone();
    assert_eq!((info.name.as_str(), info.version), ("counter", 1));
    assert_eq!(info.fields, Fields::Numbers(vec!["used".to_owned()]));
    assert!(info.has_give && info.has_take && !info.has_resize && !info.has_split && !info.has_merge);
    assert!(info.accepts_burst());
    assert_eq!((info.burst, info.default_burst(7)), (BurstRule::Limit, 7));
    let info = host.info(host.policy(b"bytes").unwrap());
    assert_eq!((&info.fields, info.burst), (&Fields::Buffer, BurstRule::None));
    assert!(!info.accepts_burst() && !info.trusted);
    assert_eq!(info.limit_max, None);
    assert_eq!(host.policy(b"other"), None);
    let tokens = check_body("return true, 1, 0").replace("'limit'", "3");
    host.replace(&source("tokens", &tokens)).unwrap();
    assert_eq!(host.info(host.policy(b"tokens").unwrap()).default_burst(7), 3);
    let small = COUNTER.replace("version = 1,", "version = 1, max_limit = 12,");
    host.replace(&source("small", &small)).unwrap();
    assert_eq!(host.info(host.policy(b"small").unwrap()).limit_max, Some(12));
}

#[test]
fn a_broken_file_leaves_the_old_policy() {
    let mut host = host(&[("counter", COUNTER)]);
    let params = params(&mut host, "counter", 10);
    for broken in ["return {", "return 1", "while true do end"] {
        host.replace(&source("counter", broken)).unwrap_err();
        let mut batch = Batch::new();
        let (op, _) = fresh(&mut batch, params, 3);
        run(&mut host, &mut batch);
        assert_eq!(batch.outcome(op).unwrap().remaining, 7);
    }
}

#[test]
fn a_file_of_the_same_version_takes_over_ids_and_states() {
    let mut host = host(&[("counter", COUNTER)]);
    let id = host.policy(b"counter").unwrap();
    let params = params(&mut host, "counter", 10);
    let stricter = COUNTER.replace("local left = limit.burst - used", "local left = limit.burst - used - 2");
    let replaced = host.replace(&source("counter", &stricter)).unwrap();
    assert_eq!(replaced, Replaced::Updated(id));
    let mut batch = Batch::new();
    let state = batch.state(StateIn {
        params: Some(params),
        fields: &[3.0],
    });
    let op = batch.check(params, state, 0, 1, false);
    run(&mut host, &mut batch);
    assert_eq!(batch.outcome(op).unwrap().remaining, 4);
}

#[test]
fn a_file_of_another_version_charges_what_the_old_one_says_was_used() {
    let mut host = host(&[("counter", COUNTER)]);
    let old = params(&mut host, "counter", 10);
    let left = "return { version = 2, fields = { 'left', 'seen' }, burst = 'limit',
        check = function(limit, now, cost, left, seen)
            left = left or limit.burst
            if cost > left then return false, left, 1, left, now end
            return true, left - cost, 0, left - cost, now
        end,
        full_at = function(limit, left, seen) return seen end }";
    let Replaced::Superseded { new, .. } = host.replace(&source("counter", left)).unwrap() else {
        panic!("another version");
    };
    let current = params(&mut host, "counter", 10);
    assert_ne!(old, current);
    assert!(host.same_policy(old, current));
    assert_eq!(host.policy(b"counter"), Some(new));
    let mut batch = Batch::new();
    let state = batch.state(StateIn {
        params: Some(old),
        fields: &[7.0],
    });
    let ops = [1, 1].map(|cost| batch.check(current, state, 50, cost, false));
    run(&mut host, &mut batch);
    assert_eq!(ops.map(|op| batch.outcome(op).unwrap().remaining), [2, 1]);
    let after = batch.state_after(state);
    assert_eq!((after.params, after.fields()), (current, &[1.0, 50.0][..]));

    let stored = Stored {
        params: old,
        state: State::Numbers(&[7.0]),
    };
    let (outcome, state) = host.check_one(current, Some(stored), 50, 3, false).unwrap();
    assert!(outcome.allowed);
    assert_eq!(state, State::Numbers(&[0.0, 50.0]));
}

#[test]
fn the_number_of_policies_is_bounded() {
    let limits = PolicyLimits {
        policies_max: 2,
        ..PolicyLimits::default()
    };
    let mut host = PolicyHost::new(&[source("a", COUNTER), source("b", COUNTER)], limits).unwrap();
    let error = host.replace(&source("c", COUNTER)).unwrap_err().to_string();
    assert!(error.starts_with("more than 2 policies"), "{error}");
    host.replace(&source("a", COUNTER)).unwrap();
}

#[test]
fn a_directory_overrides_and_extends_what_is_built_in() {
    let dir = std::env::temp_dir().join(format!("tollgate-policies-{}", std::process::id()));
    fs::create_dir_all(dir.join("sub.lua")).unwrap();
    fs::write(dir.join("token_bucket.lua"), COUNTER).unwrap();
    fs::write(dir.join("mine.lua"), BYTES).unwrap();
    fs::write(dir.join("notes.txt"), "no Lua").unwrap();
    let sources = load_dir(&dir).unwrap();
    let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names.len(), builtin_policies().len() + 1);
    assert!(names.contains(&"mine") && names.is_sorted());
    let host = PolicyHost::new(&sources, PolicyLimits::default()).unwrap();
    assert!(!host.info(host.policy(b"token_bucket").unwrap()).trusted);
    assert!(host.info(host.policy(b"fixed_window").unwrap()).trusted);

    fs::write(dir.join("binary.lua"), [0xff, 0xfe]).unwrap();
    let error = load_dir(&dir).unwrap_err().to_string();
    assert!(error.ends_with("binary.lua: the text is not UTF-8"), "{error}");
    fs::write(dir.join("binary.lua"), "-".repeat(POLICY_SOURCE_BYTES_MAX + 1)).unwrap();
    let error = load_dir(&dir).unwrap_err().to_string();
    assert!(error.contains("binary.lua: 65537 bytes"), "{error}");
    fs::remove_dir_all(&dir).unwrap();
    let error = load_dir(&dir).unwrap_err().to_string();
    assert!(error.contains("tollgate-policies-"), "{error}");
}

#[test]
fn every_built_in_policy_loads_and_answers() {
    let mut host = PolicyHost::new(&builtin_policies(), PolicyLimits::default()).unwrap();
    for source in builtin_policies() {
        let policy = host.policy(source.name.as_bytes()).unwrap();
        let burst = host.info(policy).default_burst(100);
        let params = Params {
            limit: 100,
            window_us: 60_000_000,
            burst,
        };
        let params = host.intern(policy, params).unwrap();
        host.probe(params, 1_700_000_000_000_000).unwrap();
        let (outcome, state) = host.check_one(params, None, 1_700_000_000_000_000, 1, false).unwrap();
        assert!(outcome.allowed && !state.is_empty(), "{}", source.name);
        assert_eq!(outcome.remaining, burst as i64 - 1, "{}", source.name);
    }
}

#[test]
fn interning_is_bounded_by_what_is_retained() {
    let limits = PolicyLimits {
        max_params: 100,
        ..PolicyLimits::default()
    };
    let mut host = PolicyHost::new(&[source("counter", COUNTER)], limits).unwrap();
    let policy = host.policy(b"counter").unwrap();
    let intern = |host: &mut PolicyHost, limit| {
        host.intern(
            policy,
            Params {
                limit,
                window_us: 1_000,
                burst: limit,
            },
        )
    };
    let kept = intern(&mut host, 1).unwrap();
    host.retain(kept);
    let mut batch = Batch::new();
    for limit in 2..5_000 {
        let id = intern(&mut host, limit).unwrap();
        batch.clear();
        let (op, _) = fresh(&mut batch, id, 1);
        run(&mut host, &mut batch);
        assert_eq!(batch.outcome(op).unwrap().remaining, limit as i64 - 1);
        assert!(host.params_len() <= 100);
    }
    assert_eq!(host.params(kept).1.limit, 1);
    for limit in 10_000..10_099 {
        let id = intern(&mut host, limit).unwrap();
        host.retain(id);
    }
    let error = intern(&mut host, 1_000_000).unwrap_err();
    assert_eq!(error.to_string(), "more than 100 distinct limits are in use");
    host.release(kept);
    run(&mut host, &mut Batch::new());
    assert_eq!(intern(&mut host, 1_000_000), Ok(kept));
}
