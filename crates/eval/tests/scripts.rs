//! What scripts see and what comes of their values: the conversion list of Redis.

mod support;

use support::{FakeHost, engine, eval, eval_error, finish, start};
use tollgate_eval::{LogLevel, Outcome};

#[test]
fn lua_values_become_replies() {
    for (source, reply) in [
        ("return 7.9", ":7"),
        ("return -7.9", ":-7"),
        ("return 1752345678901234567", ":1752345678901234688"),
        ("return 1e30", ":-9223372036854775808"),
        ("return 0/0", ":-9223372036854775808"),
        ("return true", ":1"),
        ("return false", "_"),
        ("return nil", "_"),
        ("return", "_"),
        ("", "_"),
        ("return 1, 2", ":1"),
        ("return {1,nil,3}", "*1 :1"),
        ("return {1,false,3}", "*3 :1 _ :3"),
        ("return {1,{2,{3,'x'}}}", "*2 :1 *2 :2 *2 :3 $x"),
        ("return {}", "*0"),
        ("return {ok='fine'}", "+fine"),
        ("return {err='MY problem'}", "-MY problem"),
        ("return {err='a\\r\\nb'}", "-a  b"),
        ("return {ok=5}", "*0"),
        ("return {double=1.5}", ",1.5"),
        ("return {double='x'}", "*0"),
        ("return {map={a=1}}", "%1 $a :1"),
        ("return {{map={a={1,2}}},3}", "*2 %1 $a *2 :1 :2 :3"),
        ("return {set={a=true}}", "~1 $a"),
        ("return {map={}}", "%0"),
        ("return {big_number='123'}", "(123"),
        ("return {verbatim_string={string='a',format='txt'}}", "=txt:a"),
        ("return redis.status_reply('GOOD')", "+GOOD"),
        ("return redis.error_reply('MY err')", "-MY err"),
        ("return redis.error_reply('-MY err')", "-MY err"),
        (
            "return redis.error_reply('SETTINGS_KEY_NOT_FOUND')",
            "-SETTINGS_KEY_NOT_FOUND",
        ),
        ("return redis.error_reply('')", "-ERR "),
        ("return redis.error_reply()", "-ERR wrong number or type of arguments"),
        ("redis.setresp(3) return {true,false}", "*2 #t #f"),
        ("return cjson.null", "_"),
        ("return function() end", "_"),
        ("return '\\0\\255'", "$\\x00\\xff"),
        (
            "return {KEYS[1],KEYS[2],ARGV[1],ARGV[2]+1,#KEYS,#ARGV}",
            "*6 $key1 $key2 $arg1 :3 :2 :2",
        ),
    ] {
        assert_eq!(eval(source), reply, "{source}");
    }
}

/// The compiler knows functions that Redis does not have: what is not there cannot be called either.
#[test]
fn the_compiler_calls_nothing_that_is_not_there() {
    let libraries = [
        (
            "math",
            "abs acos asin atan atan2 ceil clamp cos cosh deg exp floor fmod frexp isfinite isinf isnan ldexp lerp log log10 max min \
             modf pow rad round sign sin sinh sqrt tan tanh",
        ),
        (
            "bit32",
            "arshift band bnot bor btest bxor byteswap countlz countrz extract lrotate lshift replace rrotate rshift",
        ),
        ("string", "byte char len sub"),
        ("table", "insert unpack"),
        ("buffer", "readi8 readu8 readi32 readf64 writei8 writeu32 writef64"),
        (
            "vector",
            "abs ceil clamp create cross dot floor lerp magnitude max min normalize sign",
        ),
        ("integer", "add band create max mul neg sub tonumber"),
    ];
    let members = libraries
        .iter()
        .flat_map(|(library, names)| names.split(' ').map(move |name| format!("{library}.{name}")));
    let globals =
        "assert getmetatable rawequal rawget rawlen rawset select setmetatable tonumber tostring type typeof unpack";
    let names = members.chain(globals.split(' ').map(str::to_owned));
    for name in names {
        let library = name.split('.').next().unwrap_or_default();
        let looked_up = format!("local found = rawget(_G, '{library}') ");
        let member = match name.split_once('.') {
            Some((_, member)) => format!("found = type(found) == 'table' and rawget(found, '{member}') or nil "),
            None => String::new(),
        };
        let is_there = eval(&format!("{looked_up}{member}return found and 1 or 0")) == ":1";
        // Whatever each of them takes, one of these is it.
        let called = ["1, 2, 3", "{}, 2, 3", "{}, nil", "'1', 1", "2.5"]
            .iter()
            .any(|arguments| eval(&format!("return pcall(function() {name}({arguments}) end) and 1 or 0")) == ":1");
        assert_eq!(called, is_there, "{name}");
    }
}

#[test]
fn replies_become_lua_values() {
    for (source, reply) in [
        ("return redis.call('SET','k','v').ok", "$OK"),
        ("return redis.call('SET','k','v')", "+OK"),
        ("return tostring(redis.call('GET','nokey'))", "$false"),
        ("redis.setresp(3) return tostring(redis.call('GET','nokey'))", "$nil"),
        (
            "local a=redis.call('HOLES') return {#a,a[1],tostring(a[2]),a[3]}",
            "*4 :3 $a $false $c",
        ),
        ("return redis.call('MAP')", "*4 $a :1 $b :2"),
        ("redis.setresp(3) return redis.call('MAP').map.b", ":2"),
        ("redis.setresp(3) return tostring(redis.call('MEMBERS').set.a)", "$true"),
        ("return redis.call('DOUBLE')", "$1.5"),
        ("redis.setresp(3) return redis.call('DOUBLE').double * 2", ":3"),
        ("redis.setresp(3) return redis.call('BIG')", "(12345678901234567890"),
        ("redis.setresp(3) return redis.call('VERBATIM')", "=mkd:text"),
        ("return redis.call('BIG')", "$12345678901234567890"),
        ("return redis.call('BOOLEAN')", ":1"),
        ("redis.setresp(3) return redis.call('BOOLEAN')", "#t"),
        (
            "return redis.pcall('NOSUCH').err",
            "$WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "return redis.pcall('NOSUCH')",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "local ok, e = pcall(redis.call, 'NOSUCH') return {tostring(ok), e}",
            "*2 $false $WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "return redis.pcall()",
            "-ERR Please specify at least one argument for this redis lib call",
        ),
        (
            "return redis.pcall('GET', {})",
            "-ERR Lua redis lib command arguments must be strings or integers",
        ),
        ("return server.call('COUNT', 1, 2)", ":2"),
        ("return redis.call('COUNT', unpack({}, 1, 0))", ":0"),
    ] {
        assert_eq!(eval(source), reply, "{source}");
    }
}

#[test]
fn number_arguments_keep_their_digits() {
    assert_eq!(
        eval("return redis.call('ARGS', 0.1, 3.0, 1752345678901234, 1.7523456789012347e18, 1e20, 'x', 10/2)"),
        "*7 $0.10000000000000001 $3 $1752345678901234 $1.7523456789012347e+18 $1e+20 $x $5"
    );
}

#[test]
fn texts_are_read_as_numbers_as_by_strtod() {
    // With a base, it is Luau's own that answers.
    let source = r#"
        local texts = {'0', '-0', '+7', '12', ' 12 ', '12 x', '12abc', '', ' ', '-', '+', '.', '1.', '.5', '-.5e-3', '1e5', '1E+5', '1e',
            'e5', '1e400', '-1e400', '1e-400', '4.9406564584124654e-324', 'inf', 'nan', 'infinity', '0x10', '0x', '1_0', '1.2.3', '--1',
            '1764550000.1234560013', '99.998333333331', '9007199254740993', '123456789012345678901234567890', '0.1', '2.5e-7',
            '179769313486231580793728971405301199', string.char(49, 50, 0), string.char(0), '1e+', '1-1', '٣', string.rep('1', 70), string.rep('0', 70) .. '1'}
        for n = 1, 2000 do
            texts[#texts + 1] = math.random(0, 1000000) .. '.' .. math.random(0, 1000000000)
            texts[#texts + 1] = (math.random() * 10 ^ math.random(-20, 20)) .. ''
        end
        for _, text in ipairs(texts) do
            local ours, theirs = tonumber(text), tonumber(text, 10)
            local is_same = ours == theirs and 1 / (ours or 1) == 1 / (theirs or 1)
            if not is_same and (ours == ours or theirs == theirs) then
                return text
            end
        end
        for _, value in ipairs({true, {}, 0, function() end}) do
            if tonumber(value) ~= tonumber(value, 10) then
                return 'another type'
            end
        end
        return {tonumber('ff', 16), tonumber(3), select('#', tonumber('x')), (pcall(tonumber)) and 1 or 0}
    "#;
    assert_eq!(eval(source), "*4 :255 :3 :1 :0");
}

#[test]
fn thousands_of_arguments_are_passed() {
    assert_eq!(
        eval("local t = {} for i = 1, 8000 do t[i] = i end return redis.call('COUNT', unpack(t))"),
        ":8000"
    );
}

#[test]
fn errors_say_where() {
    for (source, reply) in [
        ("error('boo')", "ERR user_script:1: boo script: sha, on @user_script:1."),
        ("error('boo', 0)", "ERR boo script: sha, on @user_script:1."),
        ("\n\nerror({err='MY code'})", "MY code script: sha, on @user_script:3."),
        ("error()", "ERR nil script: sha, on @user_script:1."),
        ("error(1)", "ERR user_script:1: 1 script: sha, on @user_script:1."),
        (
            "assert(false, 'no')",
            "ERR user_script:1: no script: sha, on @user_script:1.",
        ),
        (
            "x = 1",
            "ERR user_script:1: Attempt to modify a readonly table script: sha, on @user_script:1.",
        ),
        (
            "redis.call = 1",
            "ERR user_script:1: Attempt to modify a readonly table script: sha, on @user_script:1.",
        ),
        (
            "rawset(_G, 'a', 1)",
            "ERR Attempt to modify a readonly table script: sha, on @user_script:1.",
        ),
        (
            "setmetatable(_G, {})",
            "ERR Attempt to modify a readonly table script: sha, on @user_script:1.",
        ),
        (
            "return x",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: sha, on @user_script:1.",
        ),
        (
            "return print('x')",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'print' script: sha, on @user_script:1.",
        ),
        (
            "\nredis.call('NOSUCH')",
            "WRONGTYPE Operation against a key holding the wrong kind of value script: sha, on @user_script:2.",
        ),
        (
            "local function f()\nredis.call()\nend\nf()",
            "ERR Please specify at least one argument for this redis lib call script: sha, on @user_script:2.",
        ),
        (
            "redis.setresp(4)",
            "ERR RESP version must be 2 or 3. script: sha, on @user_script:1.",
        ),
        (
            "coroutine.yield(1)",
            "ERR attempt to yield across metamethod/C-call boundary script: sha, on @user_script:1.",
        ),
    ] {
        assert_eq!(eval_error(source), reply, "{source}");
    }
}

#[test]
fn what_a_script_catches_reads_as_in_redis() {
    assert_eq!(
        eval("return {pcall(function() x = 1 end)}"),
        "*2 _ $user_script:1: Attempt to modify a readonly table"
    );
    assert_eq!(
        eval("return {pcall(function() return x end)}"),
        "*2 _ $user_script:1: Script attempted to access nonexistent global variable \\'x\\'"
    );
    assert_eq!(eval("return select('#', pcall(function() end))"), ":1");
    assert_eq!(
        eval("return {pcall(function(...) return ... end, 1, nil, 3)}"),
        "*2 :1 :1"
    );
    assert_eq!(
        eval("return {pcall(coroutine.yield, 1)}"),
        "*2 _ $attempt to yield across metamethod/C-call boundary"
    );
}

#[test]
fn compile_errors_read_as_in_redis() {
    let engine = engine();
    let error = |source: &[u8]| {
        engine
            .compile(source, "user_script")
            .err()
            .map(|error| error.to_string())
    };
    let text = error(b"return ===").unwrap();
    assert!(
        text.starts_with("ERR Error compiling script (new function): user_script:1: "),
        "{text}"
    );
    let text = error(b"\n\nreturn 1 2").unwrap();
    assert!(
        text.starts_with("ERR Error compiling script (new function): user_script:3: "),
        "{text}"
    );
    // Bytecode of Lua 5.1 and of Luau.
    assert!(error(b"\x1bLua\x51\x00\x01").is_some());
    assert!(error(b"\x06\x03\x00\x00").is_some());
    assert!(error(&vec![b' '; tollgate_eval::SCRIPT_SOURCE_BYTES_MAX + 1]).is_some());
    assert_eq!(error(b"#!lua flags=no-writes\nreturn 1"), None);
    // The parser takes a NUL for the end: what comes after it would be left out in silence.
    for (source, line) in [
        (&b"return 1 \0 no lua ("[..], 1),
        (b"\0return 1", 1),
        (b"return 'a\0b'", 1),
        (b"return 1 --\0", 1),
        (b"#!lua\n\nreturn [[\0]]", 3),
    ] {
        let nul = format!("ERR Error compiling script (new function): user_script:{line}: unexpected NUL byte");
        assert_eq!(error(source), Some(nul));
    }
    assert_eq!(eval("return 'a\\0b'"), "$a\\x00b");
    assert_eq!(
        eval("return {select(2, loadstring('return 1 \\0 ('))}"),
        "*1 $[string \\\"return 1 \\x00 (\\\"]:1: unexpected NUL byte"
    );
}

#[test]
fn a_script_has_no_arguments_but_its_tables() {
    for (source, reply) in [
        ("return {...}", "*0"),
        ("return select('#', ...)", ":0"),
        (
            "local a, b = ... return {tostring(a), tostring(b), KEYS[1], ARGV[2]}",
            "*4 $nil $nil $key1 $2",
        ),
        ("-- what... \nreturn KEYS[2]", "$key2"),
        (
            "return {(function(...) return select('#', ...) end)(1, 2), ...} -- end",
            "*1 :2",
        ),
        ("#!lua\nreturn {...}", "*0"),
    ] {
        assert_eq!(eval(source), reply, "{source}");
    }
    assert_eq!(
        eval_error("\nlocal a = ... error('boo')"),
        "ERR user_script:2: boo script: sha, on @user_script:2."
    );
    // What is no script by itself does not become one.
    assert!(
        engine()
            .compile(b"return {...} end)() (function()", "user_script")
            .is_err()
    );
    assert!(tollgate_eval::check_source(b"return ... end)(", "user_script").is_err());
    assert!(tollgate_eval::check_source(b"return ...", "user_script").is_ok());
}

#[test]
fn lua_5_1_is_whole() {
    for (source, reply) in [
        ("return {unpack({1,2,3}, 2)}", "*2 :2 :3"),
        ("return loadstring('return 1 + ...')(2)", ":3"),
        ("return type(select(2, loadstring('return ===')))", "$string"),
        (
            "local n = 0 return load(function() n = n + 1 return ({'return ', '5'})[n] end)()",
            ":5",
        ),
        ("return table.maxn({1,2,nil,4})", ":4"),
        ("return table.getn({1,2})", ":2"),
        (
            "local s = 0 table.foreach({1,2}, function(k,v) s = s + v end) return s",
            ":3",
        ),
        (
            "local s = 0 table.foreachi({1,2}, function(k,v) s = s + k end) return s",
            ":3",
        ),
        ("return {math.pow(2,3), math.mod(5,3), math.log10(100)}", "*3 :8 :2 :2"),
        (
            "local t = {} for w in string.gfind('a b', '%a') do t[#t+1] = w end return t",
            "*2 $a $b",
        ),
        (
            "return {tonumber(' 12 '), tonumber('0x10'), -5 % 3, string.format('%d', 3.99)}",
            "*4 :12 :16 :1 $3",
        ),
        (
            "return {tostring(tonumber('')), tostring(tonumber(false)), tostring(3.0)}",
            "*3 $nil $nil $3",
        ),
        ("return '5' + 1", ":6"),
        ("return math.max('3', 10)", ":10"),
        ("return math.floor('3.7')", ":3"),
        ("return collectgarbage('count') > 0 and collectgarbage() == 0", ":1"),
        (
            "return {type(os.clock()), _VERSION, type(_G.redis)}",
            "*3 $number $Lua 5.1 $table",
        ),
        (
            "return {string.find('a.b', '.', 1, true), string.find('abc', 'b'), string.find('abc', 'x')}",
            "*2 :2 :2",
        ),
        ("return {string.find('abc', '(b)(c)')}", "*4 :2 :3 $b $c"),
        (
            "return {('abcabc'):find('b', -3), (''):find(''), ('abc'):find('', 10)}",
            "*4 :5 :1 :4 :3",
        ),
        ("return {string.gsub('hello world', 'o', '0')}", "*2 $hell0 w0rld :2"),
        ("return {string.gsub('hello', 'l', {l='L'})}", "*2 $heLLo :2"),
        (
            "return {string.gsub('hello', '(l)(o)', function(a, b) return b .. a end)}",
            "*2 $helol :1",
        ),
        (
            "return {string.gsub('abc', '%w*', function() return 'x' end)}",
            "*2 $xx :2",
        ),
        ("return {string.gsub('abc', '%w*', 'x')}", "*2 $xx :2"),
        (
            "return {string.gsub('abc', '', function() return '-' end)}",
            "*2 $-a-b-c- :4",
        ),
        (
            "return {string.gsub('abcabc', '^a', function() return 'x' end)}",
            "*2 $xbcabc :1",
        ),
        (
            "return {string.gsub('aaa', 'a', function() return 'x' end, 2)}",
            "*2 $xxa :2",
        ),
        (
            "return {string.gsub('abc', 'b', function() return nil end)}",
            "*2 $abc :1",
        ),
        ("local t = {3,1,2} table.sort(t) return t", "*3 :1 :2 :3"),
        (
            "local t = {'b','c','a'} table.sort(t, function(a,b) return a > b end) return t",
            "*3 $c $b $a",
        ),
        (
            "local t, x = {}, 7 for i = 1, 1000 do x = x * 16807 % 2147483647 t[i] = x end table.sort(t) \
             for i = 2, #t do if t[i-1] > t[i] then return i end end return #t",
            ":1000",
        ),
        (
            "local t, x = {}, 7 for i = 1, 999 do x = x * 16807 % 2147483647 t[i] = x end \
             table.sort(t, function(a, b) return a > b end) \
             for i = 2, #t do if t[i-1] < t[i] then return i end end return #t",
            ":999",
        ),
        (
            "local t = {} for i = 1, 5000 do t[i] = i end return #table.concat(t, ',')",
            ":23892",
        ),
        ("return table.concat({1,2,3}, '-', 2)", "$2-3"),
    ] {
        assert_eq!(eval(source), reply, "{source}");
    }
}

#[test]
fn the_redis_table_answers_as_redis() {
    for (source, reply) in [
        ("return redis.sha1hex('a')", "$86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ("return redis.replicate_commands()", ":1"),
        ("return redis.set_repl(redis.REPL_ALL)", "_"),
        ("return tostring(redis.breakpoint())", "$false"),
        (
            "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}",
            "*2 $7.2.4 :459268",
        ),
        ("return tostring(redis.acl_check_cmd('GET', 'k'))", "$true"),
        ("math.randomseed(5) return math.random(100)", ":53"),
    ] {
        assert_eq!(eval(source), reply, "{source}");
    }
    for (source, message) in [
        ("redis.sha1hex()", "ERR wrong number of arguments"),
        ("redis.log(1)", "ERR redis.log() requires two arguments or more."),
        (
            "redis.log('a', 'b')",
            "ERR First argument must be a number (log level).",
        ),
        ("redis.log(9, 'b')", "ERR Invalid debug level."),
        (
            "redis.acl_check_cmd('NOSUCH')",
            "ERR Invalid command passed to redis.acl_check_cmd()",
        ),
    ] {
        assert_eq!(
            eval_error(source),
            format!("{message} script: sha, on @user_script:1."),
            "{source}"
        );
    }
    let mut host = FakeHost::default();
    finish(&mut start(&engine(), "redis.log(redis.LOG_WARNING, 'a', 1)"), &mut host).unwrap();
    assert_eq!(host.logged, [(LogLevel::Warning, b"a 1".to_vec())]);
}

#[test]
fn nothing_leaks_into_the_next_run() {
    let engine = engine();
    let mut host = FakeHost::default();
    for source in [
        "getmetatable('').__index = nil",
        "getmetatable('').__index.leak = 1",
        "string.leak = 1",
        "getmetatable(_G).__index = nil",
        "_G.leak = 1",
        "table.insert(redis, 1)",
        "rawset(cjson, 'leak', 1)",
        "setmetatable(string, {})",
    ] {
        assert!(finish(&mut start(&engine, source), &mut host).is_err(), "{source}");
    }
    let set = "redis.setresp(3) math.randomseed(1) cjson.encode_max_depth(1) KEYS[1] = 'x' return true";
    assert_eq!(finish(&mut start(&engine, set), &mut host).unwrap(), "#t");
    let get = "return {true, cjson.encode({{1}}), KEYS[1], ('x'):rep(2)}";
    assert_eq!(
        finish(&mut start(&engine, get), &mut host).unwrap(),
        "*4 :1 $[[1]] $key1 $xx"
    );
    let random = |source| finish(&mut start(&engine, source), &mut FakeHost::default()).unwrap();
    let first = random("return math.random(2147483646)");
    assert_ne!(first, random("return math.random(2147483646)"));
}

#[test]
fn a_key_that_is_elsewhere_ends_the_run() {
    let engine = engine();
    let mut host = FakeHost {
        is_elsewhere: true,
        ..FakeHost::default()
    };
    for source in [
        "return redis.call('GET', 'k')",
        "return redis.pcall('GET', 'k')",
        "pcall(redis.call, 'GET', 'k') return 1",
        "while true do pcall(function() redis.call('GET', 'k') end) end",
        "coroutine.wrap(function() pcall(redis.call, 'GET', 'k') end)() return 1",
        "return table.sort({2, 1}, function() redis.call('GET', 'k') end)",
        "xpcall(redis.call, function() while true do end end, 'GET', 'k') return 1",
    ] {
        host.calls = 0;
        let mut run = start(&engine, source);
        let outcome = support::watch(&mut run, &mut host, std::time::Duration::from_secs(5)).outcome;
        assert!(matches!(outcome, Outcome::Retry), "{source}: {outcome:?}");
        assert_eq!(host.calls, 1, "{source}");
    }
}
