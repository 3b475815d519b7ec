//! What a run costs: `cargo run --release -p tollgate-eval --example cost`, or with the name of one script, for a profiler.

use std::time::{Duration, Instant};

use tollgate_eval::{Engine, EngineLimits, Host, HostAnswer, LogLevel, Outcome, ReplySink, Resp, Run, Tape};
use tollgate_protocol::Request;

struct Counter(i64);

impl Host for Counter {
    fn call(&mut self, request: Request<'_>, _: Resp, reply: &mut Tape) -> HostAnswer {
        match request.arg(0) {
            b"INCR" => {
                self.0 += 1;
                reply.integer(self.0);
            }
            b"GET" => reply.bulk(b"12345"),
            b"PTTL" => reply.integer(1000),
            b"TIME" => {
                reply.array(2);
                reply.bulk(b"1727314860");
                reply.bulk(b"123456");
            }
            _ => reply.status(b"OK"),
        }
        HostAnswer::Replied
    }

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}
}

const SCRIPTS: [(&str, &str); 5] = [
    ("empty", "return 1"),
    ("one call", "return redis.call('INCR', KEYS[1])"),
    (
        "fixed window",
        "local current = redis.call('INCR', KEYS[1]) local ttl = redis.call('PTTL', KEYS[1])
         if ttl < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) ttl = tonumber(ARGV[1]) end return {current, ttl}",
    ),
    (
        "GCRA",
        "redis.replicate_commands()
         local key, burst, rate, period, cost = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
         local interval = period / rate
         local increment = interval * cost
         local offset = interval * burst
         local now = redis.call('TIME')
         now = now[1] - 1483228800 + now[2] / 1000000
         local tat = redis.call('GET', key)
         if not tat then tat = now else tat = tonumber(tat) end
         tat = math.max(tat, now)
         local new_tat = tat + increment
         local diff = now - (new_tat - offset)
         local remaining = diff / interval
         if remaining < 0 then return {0, 0, tostring(now), tostring(new_tat - now)} end
         local reset_after = new_tat - now
         if reset_after > 0 then redis.call('SET', key, new_tat, 'EX', math.ceil(reset_after)) end
         return {cost, remaining, tostring(-1), tostring(reset_after)}",
    ),
    ("10,000 loops", "local n = 0 for i = 1, 10000 do n = n + i end return n"),
];

fn run_to_end(run: &mut Run, host: &mut Counter, slice: Duration, reply: &mut Tape) -> usize {
    let mut slices = 1;
    while matches!(run.resume(host, slice), Outcome::Yielded) {
        slices += 1;
    }
    run.write_reply(reply).expect("a small reply");
    slices
}

fn main() {
    let engine = Engine::new(EngineLimits::default()).expect("an engine");
    let mut host = Counter(0);
    let wanted = std::env::args().nth(1);
    for (name, source) in SCRIPTS {
        if wanted.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let script = engine.compile(source.as_bytes(), "user_script").expect("a script");
        let rounds = if name == "10,000 loops" { 2_000 } else { 200_000 };
        let mut best = f64::MAX;
        for _ in 0..5 {
            let begin = Instant::now();
            for _ in 0..rounds {
                let mut run = engine.start(&script, &["ratelimit:user:42"], &["10", "100", "60", "1"]);
                let mut reply = Tape::default();
                run_to_end(&mut run, &mut host, Duration::from_millis(1), &mut reply);
            }
            best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(rounds));
        }
        println!("{name}: {best:.0} ns");
    }
    if wanted.is_some() {
        return;
    }
    let spin = engine
        .compile(b"for i = 1, 1e8 do end", "user_script")
        .expect("a script");
    for slice_us in [1_000_000, 1_000, 100, 20] {
        let none: [&str; 0] = [];
        let mut run = engine.start(&spin, &none, &none);
        let begin = Instant::now();
        let slices = run_to_end(
            &mut run,
            &mut host,
            Duration::from_micros(slice_us),
            &mut Tape::default(),
        );
        println!(
            "1e8 loops in slices of {slice_us} us: {:?}, {slices} slices",
            begin.elapsed()
        );
    }
    let begin = Instant::now();
    for index in 0..1_000 {
        let source = format!("{} -- {index}", SCRIPTS[3].1);
        engine.compile(source.as_bytes(), "user_script").expect("a script");
    }
    println!("compile GCRA: {:?}", begin.elapsed() / 1_000);
}
