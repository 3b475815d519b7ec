//! The libraries of the scripts' environment beside those of a stock redis-server: the same snippets, by EVAL there and in
//! an `Engine` here, whose `redis.call` asks the same server.
//!
//! Left out is what differs by design: `tostring` of numbers that take more than 14 digits, the wording of Luau's own
//! messages, the order of `pairs`. Redis 7.0 will do as a reference but for `redis.error_reply` of one word.

use std::time::Duration;

use tollgate_eval::{Engine, EngineLimits, Host, HostAnswer, LogLevel, Outcome, ReplySink, Resp, Tape, sha1_hex};
use tollgate_protocol::Request;
use tollgate_suite::{Client, RedisServer, Value, skip_without};

/// Commands of scripts go to a redis-server.
struct Forward {
    two: Client,
    three: Client,
}

impl Host for Forward {
    fn call(&mut self, request: Request<'_>, resp: Resp, reply: &mut Tape) -> HostAnswer {
        let client = match resp {
            Resp::Two => &mut self.two,
            Resp::Three => &mut self.three,
        };
        let arguments: Vec<&[u8]> = request.iter().collect();
        write(&client.command(&arguments), reply);
        HostAnswer::Replied
    }

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        Some(true)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}
}

fn write(value: &Value, reply: &mut dyn ReplySink) {
    match value {
        Value::Simple(text) => reply.status(text.as_bytes()),
        Value::Error(text) => reply.error(text.as_bytes()),
        Value::Int(value) => reply.integer(*value),
        Value::Bulk(bytes) => reply.bulk(bytes),
        Value::NullBulk | Value::NullArray | Value::Null => reply.null(),
        Value::Bool(value) => reply.boolean(*value),
        Value::Double(text) => reply.double(text.parse().expect("a double")),
        Value::BigNumber(digits) => reply.big_number(digits.as_bytes()),
        Value::Verbatim(bytes) => reply.verbatim(&bytes[..3], &bytes[4..]),
        Value::Array(items) => {
            reply.array(items.len());
            items.iter().for_each(|item| write(item, reply));
        }
        Value::Set(items) => {
            reply.set(items.len());
            items.iter().for_each(|item| write(item, reply));
        }
        Value::Map(pairs) => {
            reply.map(pairs.len());
            for (key, value) in pairs {
                write(key, reply);
                write(value, reply);
            }
        }
        other => panic!("no reply of a command: {other:?}"),
    }
}

/// Puts a reply together as it would be read from the wire.
struct Reader {
    is_resp3: bool,
    open: Vec<(Container, usize, Vec<Value>)>,
    whole: Option<Value>,
}

enum Container {
    Array,
    Set,
    Map,
}

impl Reader {
    fn add(&mut self, value: Value) {
        match self.open.last_mut() {
            Some((_, _, items)) => items.push(value),
            None => self.whole = Some(value),
        }
        self.close();
    }

    fn begin(&mut self, container: Container, len: usize) {
        self.open.push((container, len, Vec::new()));
        self.close();
    }

    fn close(&mut self) {
        if self.open.last().is_none_or(|(_, len, items)| items.len() < *len) {
            return;
        }
        let Some((container, _, items)) = self.open.pop() else {
            return;
        };
        self.add(match container {
            Container::Set if self.is_resp3 => Value::Set(items),
            Container::Map if self.is_resp3 => Value::Map(
                items
                    .chunks_exact(2)
                    .map(|pair| (pair[0].clone(), pair[1].clone()))
                    .collect(),
            ),
            _ => Value::Array(items),
        });
    }
}

impl ReplySink for Reader {
    fn integer(&mut self, value: i64) {
        self.add(Value::Int(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.add(Value::Bulk(bytes.to_vec()));
    }
    fn status(&mut self, text: &[u8]) {
        self.add(Value::Simple(String::from_utf8_lossy(text).into_owned()));
    }
    fn error(&mut self, text: &[u8]) {
        self.add(Value::Error(String::from_utf8_lossy(text).into_owned()));
    }
    fn null(&mut self) {
        self.add(if self.is_resp3 { Value::Null } else { Value::NullBulk });
    }
    fn array(&mut self, len: usize) {
        self.begin(Container::Array, len);
    }
    fn map(&mut self, pairs: usize) {
        self.begin(Container::Map, 2 * pairs);
    }
    fn set(&mut self, len: usize) {
        self.begin(Container::Set, len);
    }
    fn boolean(&mut self, value: bool) {
        self.add(if self.is_resp3 {
            Value::Bool(value)
        } else {
            Value::Int(value.into())
        });
    }
    fn double(&mut self, value: f64) {
        self.add(if self.is_resp3 {
            Value::Double(value.to_string())
        } else {
            Value::Bulk(value.to_string().into_bytes())
        });
    }
    fn big_number(&mut self, digits: &[u8]) {
        let text = String::from_utf8_lossy(digits).into_owned();
        self.add(if self.is_resp3 {
            Value::BigNumber(text)
        } else {
            Value::Bulk(digits.to_vec())
        });
    }
    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        self.add(if self.is_resp3 {
            Value::Verbatim([format, b":", text].concat())
        } else {
            Value::Bulk(text.to_vec())
        });
    }
}

fn run(engine: &Engine, host: &mut Forward, source: &str, is_resp3: bool) -> Value {
    let script = match engine.compile(source.as_bytes(), "user_script") {
        Ok(script) => script,
        Err(error) => return Value::Error(error.to_string()),
    };
    let mut run = engine.start(&script, &["key{a}", "k2"], &["arg", "10"]);
    loop {
        match run.resume(host, Duration::from_millis(1)) {
            Outcome::Yielded => {}
            Outcome::Finished => break,
            Outcome::Failed(error) => {
                let text = error.to_reply(&sha1_hex(source.as_bytes()));
                return Value::Error(String::from_utf8_lossy(&text).into_owned());
            }
            Outcome::Retry => unreachable!("the host forwards"),
        }
    }
    let mut reader = Reader {
        is_resp3,
        open: Vec::new(),
        whole: None,
    };
    run.write_reply(&mut reader).expect("a small reply");
    reader.whole.expect("a whole reply")
}

const CONVERSIONS: &[&str] = &[
    "return {1,2.9,-2.9,'x',true,false,{1,{2}},1e30,0/0}",
    "return {1,nil,3}",
    "return true",
    "return false",
    "return",
    "return {ok='a\\nb'}",
    "return {err='A b\\nc'}",
    "return {err='A'}",
    "return {ok=5}",
    "return {err=5}",
    "return {double=1.5}",
    "return {map={a=1}}",
    "return {{map={a={1,{map={b=2}}}}},{set={x=true}},3}",
    "return {set={a=true}}",
    "return {big_number='123\\n4'}",
    "return {verbatim_string={string='ab',format='txt'}}",
    "return {verbatim_string={string=5,format='txt'}}",
    "return {verbatim_string={string='a'}}",
    "return cjson.null",
    "return {function() end, coroutine.create(function() end), cjson.null}",
    "redis.setresp(3) return {true,false,nil}",
    "redis.setresp(3) return true",
    "redis.setresp(3) return false",
    "return redis.status_reply('A')",
    "return redis.status_reply()",
    "return redis.error_reply()",
    "return redis.error_reply('')",
    "return redis.error_reply('MY err')",
    "return redis.error_reply('-MY err\\r\\n')",
    "return KEYS",
    "return {...}",
    "return {select('#', ...), KEYS[1], ...}",
    "return {KEYS[1], ARGV[2] * 2, #KEYS, #ARGV}",
    "return redis.call('SET', KEYS[1], 'v')",
    "return redis.call('SET', KEYS[1], 'v').ok",
    "return {redis.call('GET', KEYS[1]), redis.call('GET', 'none')}",
    "return type(redis.call('GET', 'none'))",
    "redis.setresp(3) return type(redis.call('GET', 'none'))",
    "redis.call('DEL', 'h') redis.call('HSET', 'h', 'b', 1, 'a', 2) return redis.call('HGETALL', 'h')",
    "redis.setresp(3) return redis.call('HGETALL', 'h').map.a",
    "redis.setresp(3) redis.call('DEL', 'h') redis.call('HSET', 'h', 'b', 1) return redis.call('HGETALL', 'h')",
    "return redis.call('HMGET', 'h', 'b', 'none', 'a')",
    "redis.call('ZADD', 'z', 1.5, 'm') return redis.call('ZSCORE', 'z', 'm')",
    "redis.setresp(3) return redis.call('ZSCORE', 'z', 'm').double * 2",
    "redis.setresp(3) return redis.call('ZSCORE', 'z', 'm')",
    "redis.setresp(3) redis.call('SADD', 's', 'm') return redis.call('SMEMBERS', 's')",
    "return redis.call('ECHO', 0.1)",
    "return {redis.call('ECHO', 3.0), redis.call('ECHO', 1752345678901234), redis.call('ECHO', 1e17), redis.call('ECHO', 1e-5)}",
    "return {redis.call('ECHO', 1/0), redis.call('ECHO', -1/0), redis.call('ECHO', 0/0)}",
    "return {redis.call('ECHO', 1.7523456789012347e18), redis.call('ECHO', 123456.789e3), redis.call('ECHO', 2^53)}",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call({})",
    "return redis.pcall('GET', true)",
    "return redis.call('HGET', KEYS[1], 'f')",
    "return redis.pcall('HGET', KEYS[1], 'f')",
    "return redis.pcall('HGET', KEYS[1], 'f').err",
    "local ok, e = pcall(redis.call, 'HGET', KEYS[1], 'f') return {tostring(ok), e}",
    "error('boo')",
    "error('boo', 0)",
    "\nerror({err='MY boo'})",
    "error()",
    "error(12)",
    "x = 1",
    "return x",
    "redis.call = 1",
    "_G.a = 1",
    "rawset(_G, 'a', 1)",
    "setmetatable(_G, {})",
    "return {pcall(function() x = 1 end)}",
    "return {pcall(function() return x end)}",
    "return {pcall(error, {err='E'})}",
    "return {pcall(error, {1})}",
    "coroutine.yield(1)",
    "return coroutine.wrap(function() coroutine.yield(5) end)()",
    "return redis.sha1hex('a')",
    "return redis.sha1hex(1)",
    "return redis.sha1hex()",
    "return redis.setresp(4)",
    "return redis.setresp()",
    "return redis.set_repl(9)",
    "return redis.set_repl()",
    "return redis.log(1)",
    "return redis.log('a', 'b')",
    "return redis.log(9, 'b')",
    "return redis.replicate_commands()",
    "return {redis.REPL_ALL, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_NONE}",
    "return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}",
    "math.randomseed(5) return math.random() * 1e9",
    "math.randomseed(99) return {math.random(10), math.random(5, 10), math.random(1e9)}",
    "return math.random(0)",
    "return {unpack({1,2,3}, 2)}",
    "return {loadstring('return 1')()}",
    "return {math.pow(2,3), math.mod(5,3), math.log10(100), table.maxn({1,nil,3}), table.getn({1,2})}",
    "return {string.gsub('hello', '(l)(o)', function(a, b) return b .. a end)}",
    "return {string.gsub('abc', '%w*', function() return 'x' end)}",
    "return {string.gsub('abc', '', '-')}",
    "return {string.gsub('abc', '', function() return '-' end)}",
    "return {string.find('abc', '', 10), string.find('abc', 'b', -2), string.find('a.c', '.', 2, true)}",
    "return {string.format('%5.2f|%d|%s|%q|%x|%c', 3.14159, 3.99, 'x', 'a\"b', 255, 65)}",
    "return table.concat({1,2,3}, ',')",
    "return {tostring(tonumber('')), tostring(tonumber(false)), tonumber(' 12 '), tonumber('0x10'), -5 % 3}",
    "return {tostring(1e13), tostring(0.1), tostring(-0.5), tostring(1/0), tostring(100)}",
];

const CJSON: &[&str] = &[
    "return cjson.encode({1,2,'a/b\\127\\1\"\\\\é',0.1,1e15,1727314860123456,{},{a=1},true,cjson.null,{nil,2}})",
    "return cjson.encode({1,nil,3})",
    "return cjson.encode({[1]=1,[3]=3})",
    "return cjson.encode({a={b={c={1,2,{d=cjson.null}}}}})",
    "return cjson.encode({[1.5]='x'})",
    "return cjson.encode('\\b\\f\\n\\r\\t\\0')",
    "return {cjson.encode(1), cjson.encode('x'), cjson.encode(true), cjson.encode(nil), cjson.encode(cjson.null)}",
    "return cjson.encode({1e100, -1e-7, 12345678901234567890, 0.3333333333333333, 100000000000000, 2^53})",
    "return cjson.encode({[1]=1,[100]=2})",
    "cjson.encode_sparse_array(true) local r = cjson.encode({[100]=2}) cjson.encode_sparse_array(false) return r",
    "return {pcall(function() return cjson.encode(1/0) end)}",
    "cjson.encode_invalid_numbers(true) local r = cjson.encode({0/0, -(0/0), 1/0, -1/0}) cjson.encode_invalid_numbers(false) return r",
    "return {pcall(function() return cjson.encode(function() end) end)}",
    "return {pcall(function() return cjson.encode({[true]=1}) end)}",
    "local t = {} for i = 1, 1001 do t = {t} end return {pcall(cjson.encode, t)}",
    "local t = {} for i = 1, 999 do t = {t} end return #cjson.encode(t)",
    "local t = cjson.decode('{\"a\":[1,2.5,\"x\",true,null,{}],\"b\":{\"c\":-1e3}}') return {t.a[1], tostring(t.a[2]), t.a[3], t.a[4], t.a[5] == cjson.null, #t.a, t.b.c}",
    "return cjson.decode('[1,[2,[3]],\"\\\\u00e9\\\\ud83d\\\\ude00\\\\/\\\\n\"]')",
    "return {cjson.decode('1'), cjson.decode('\"x\"'), cjson.decode('true'), tostring(cjson.decode('null') == cjson.null)}",
    "return {tostring(cjson.decode('0x10')), tostring(cjson.decode('nan')), tostring(cjson.decode('-inf')), tostring(cjson.decode('1.')), tostring(cjson.decode('01')), cjson.decode('+1')}",
    "return cjson.decode(' [ 1 , 2 ] ')",
    "return cjson.decode('{\"a\":1,\"a\":2}').a",
    "return {pcall(cjson.decode, '')}",
    "return {pcall(cjson.decode, '[1,')}",
    "return {pcall(cjson.decode, '{\"a\":1,}')}",
    "return {pcall(cjson.decode, '{a:1}')}",
    "return {pcall(cjson.decode, '[1 2]')}",
    "return {pcall(cjson.decode, '\"abc')}",
    "return {pcall(cjson.decode, '1 2')}",
    "return {pcall(cjson.decode, 'nul')}",
    "return {pcall(cjson.decode, '\"\\\\x\"')}",
    "return {pcall(cjson.decode, '\"\\\\ud800\"')}",
    "return {pcall(cjson.decode, '\"\\\\u12')}",
    "return {pcall(cjson.decode, '-')}",
    "return {pcall(cjson.decode, '[1,]')}",
    "return {pcall(cjson.decode, '{\"a\" 1}')}",
    "return {pcall(cjson.decode, '{\"a\":1 \"b\":2}')}",
    "return {pcall(cjson.decode, ':')}",
    "return {pcall(cjson.decode, 'a\\0b')}",
    "return cjson.decode('\"a\\nb\"')",
    "return {pcall(cjson.decode, string.rep('[', 1001))}",
    "return #cjson.encode(cjson.decode(string.rep('[', 1000) .. string.rep(']', 1000)))",
    "return {cjson.encode_max_depth(), cjson.decode_max_depth(), cjson.encode_keep_buffer(), cjson.encode_number_precision()}",
    "return {cjson.encode_sparse_array()}",
    "return {cjson._NAME, cjson._VERSION, type(cjson.new().encode)}",
    "return cjson.decode('hello')",
    "return cjson.encode()",
];

const CMSGPACK: &[&str] = &[
    "return cmsgpack.pack(1, -1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, 2^53)",
    "return cmsgpack.pack(-32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, -2^53)",
    "return cmsgpack.pack(1.5, 0.1, 1e300, -0.5, 2^70, 1/0, 16777217.5)",
    "return cmsgpack.pack('', 'abc', ('x'):rep(31), ('x'):rep(32), ('x'):rep(255), ('x'):rep(256), ('x'):rep(65536))",
    "return cmsgpack.pack(nil, true, false, function() end, cjson.null)",
    "return cmsgpack.pack({}, {1,2,3}, {a=1}, {1,nil,3}, {[2]=1}, {[0]=1}, {[1.5]=1})",
    "local t = {} for i = 1, 20 do t[i] = i end return cmsgpack.pack(t)",
    "local t = {} for i = 1, 70000 do t[i] = 1 end return #cmsgpack.pack(t)",
    "local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)",
    "return {cmsgpack.unpack(cmsgpack.pack(1, -1, 300, -300, 'x', true, {1,{2}}, 2^40, -2^40))}",
    "local t = cmsgpack.unpack(cmsgpack.pack({a={b='c'},d=1.5})) return {t.a.b, tostring(t.d)}",
    "return {cmsgpack.unpack('')}",
    "return {pcall(function() return cmsgpack.unpack('\\196\\3abc') end)}",
    "return {cmsgpack.unpack('\\217\\1x')}",
    "return {pcall(cmsgpack.unpack, '\\221\\255')}",
    "return {pcall(cmsgpack.unpack, '\\193')}",
    "return {pcall(cmsgpack.unpack, '\\199')}",
    "return {pcall(cmsgpack.unpack, '\\165ab')}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3), 2)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3), 5)}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3), 1, 1)}",
    "return {pcall(cmsgpack.unpack_one, 'a', 5)}",
    "return {cmsgpack.unpack_limit('\\1\\2\\3', 2^40)}",
    "return {pcall(cmsgpack.unpack_limit, '\\1\\2\\3', 0/0)}",
    "return {pcall(cmsgpack.unpack_limit, '\\1\\2\\3', 1/0)}",
    "return {pcall(cmsgpack.unpack_limit, '\\1\\2\\3', 1, 0/0)}",
    "return {pcall(cmsgpack.unpack_one, '\\1\\2\\3', 0/0)}",
    "return {cmsgpack.unpack(5)}",
    "return cmsgpack.pack()",
    "return {cmsgpack._NAME, cmsgpack._VERSION, cmsgpack._COPYRIGHT, cmsgpack._DESCRIPTION}",
];

const STRUCT: &[&str] = &[
    "return struct.pack('>I2<I2bBhHlL', 258, 258, -1, 255, -2, 65534, -3, 4)",
    "return struct.pack('i1i2i3i4i5i8I16', -1, -2, -3, -4, -5, -6, 7)",
    "return struct.pack('fd>fd', 1.5, 0.1, 1.5, 0.1)",
    "return struct.pack('sc0c3', 'abc', 'def', 'ghijk')",
    "return struct.pack('Bc0I', 5, 'hello', 70000)",
    "return struct.pack('!4bi!8bd!hxh', 1, 2, 3, 4.5, 5, 6)",
    "return struct.pack('!bT', 1, 2)",
    "return {struct.unpack('Bc0I', struct.pack('Bc0I', 5, 'hello', 70000))}",
    "return {struct.unpack('>i2<i2>I4bB', struct.pack('>i2<i2>I4bB', -2, -3, 4000000000, -1, 200))}",
    "return {struct.unpack('i3I3>i5', struct.pack('i3I3>i5', -5, 16777215, -2^39))}",
    "return {struct.unpack('sss', 'a\\0bc\\0\\0')}",
    "return {tostring(struct.unpack('d', struct.pack('d', 0.1))), tostring(struct.unpack('f', struct.pack('f', 1.5)))}",
    "return {struct.unpack('!4bi', struct.pack('!4bi', 1, 2))}",
    "return {struct.unpack('c2xc1', 'abcd')}",
    "return {struct.unpack('I2', 'abcdef', 3)}",
    "return {struct.size('bhilfd'), struct.size('!bhilfd'), struct.size('!4c3d'), struct.size('i3x')}",
    "return {struct.unpack('lLT', struct.pack('lLT', -1, 1, 2))}",
    "return {pcall(function() return struct.pack('=i', 1) end)}",
    "return {pcall(function() return struct.pack('z') end)}",
    "return {pcall(function() return struct.pack('i33', 1) end)}",
    "return {pcall(function() return struct.pack('!3i', 1) end)}",
    "return {pcall(function() return struct.pack('c5', 'abc') end)}",
    "return {pcall(function() return struct.pack('i', 'x') end)}",
    "return {pcall(function() return struct.unpack('I4', 'abc') end)}",
    "return {pcall(function() return struct.unpack('c0', 'abc') end)}",
    "return {pcall(function() return struct.unpack('s', 'abc') end)}",
    "return {pcall(function() return struct.unpack('I4', 'abcdefg', 0) end)}",
    "return {pcall(function() return struct.unpack('I4', 'abcdefg', -1) end)}",
    "return {pcall(function() return struct.unpack('I4', 'abcdefg', 100) end)}",
    "return {pcall(function() return struct.size('s') end)}",
    "return {pcall(function() return struct.size('c0') end)}",
    "return {pcall(function() return struct.pack('i99999999999', 1) end)}",
];

/// Numbers where integers are meant.
const INTEGERS: &[&str] = &[
    "return {('abc'):sub(1, 2^31), ('abc'):sub(1, 2^32), ('abc'):sub(2^32), ('abc'):sub(-2^40, 2), ('abc'):sub(1, 1e300)}",
    "return {('abcdef'):sub(2.9, -2.9), ('abc'):sub('2'), ('abc'):sub(0/0), ('abc'):sub(1/0), ('abc'):sub(2, 1/0), ('abc'):sub(-2)}",
    "return {string.sub('abc', 2, 2), string.sub('abc', 0), string.sub('abc', 3, 2), string.sub('', 1, 1), string.sub(1234, 2, 3)}",
    "return {pcall(function() return string.sub(nil, 1) end)}",
    "local t = {} for _, seed in ipairs({0, 5, -5, 2^31, 2^32 + 7, 1/0, -1/0, 0/0, 1e300}) do math.randomseed(seed) t[#t + 1] = math.random(1e6) end return t",
    "return {pcall(function() return tonumber('1', 37) end)}",
    "return {pcall(function() return tonumber('1', {}) end)}",
    "return {pcall(function() return tonumber() end)}",
    "return {pcall(function() return tonumber({}, 16) end)}",
    "return {tonumber('z', 36), tonumber('10', 10), tonumber(15, 16), tonumber('9', 8), tonumber('7', nil), tonumber({}), tonumber({}, 10)}",
    "return struct.pack('HHHHl', 1/0, -1/0, 2^40 + 3, -2, 0/0)",
];

const BIT: &[&str] = &[
    "return {bit.tobit(0xffffffff), bit.tobit(1.5), bit.tobit(2.5), bit.tobit(-1), bit.tobit(2^40 + 5), bit.tobit('12')}",
    "return {bit.bnot(0), bit.bnot(5), bit.band(255, 15, 6), bit.bor(1, 2, 4), bit.bxor(255, 15), bit.band(7)}",
    "return {bit.lshift(1, 31), bit.lshift(1, 32), bit.rshift(-1, 28), bit.arshift(-8, 1), bit.arshift(-1, 33)}",
    "return {bit.rol(0x12345678, 12), bit.ror(0x12345678, 12), bit.rol(1, 33), bit.bswap(0x12345678)}",
    "return {bit.tohex(255), bit.tohex(255, 4), bit.tohex(255, -4), bit.tohex(-1), bit.tohex(1, 0), bit.tohex(0x87654321, 20)}",
    "return {pcall(function() return bit.band() end)}",
    "return {pcall(function() return bit.tobit('x') end)}",
    "return {pcall(function() return bit.lshift(1) end)}",
];

#[test]
fn libraries_answer_as_those_of_redis() {
    if skip_without(&["redis-server"]) {
        return;
    }
    let redis = RedisServer::start(&[]);
    let engine = Engine::new(EngineLimits::default()).expect("an engine");
    let mut host = Forward {
        two: redis.client(),
        three: redis.client(),
    };
    host.three.hello3();
    let (mut two, mut three) = (redis.client(), redis.client());
    three.hello3();
    let mut differing = Vec::new();
    for source in [CONVERSIONS, CJSON, CMSGPACK, STRUCT, INTEGERS, BIT].concat() {
        for (client, is_resp3) in [(&mut two, false), (&mut three, true)] {
            let theirs = client.command(&["EVAL", source, "2", "key{a}", "k2", "arg", "10"]);
            let ours = run(&engine, &mut host, source, is_resp3);
            if ours != theirs {
                differing.push(format!("{source}\n  ours   {ours:?}\n  theirs {theirs:?}"));
            }
        }
    }
    assert!(
        differing.is_empty(),
        "{} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}
