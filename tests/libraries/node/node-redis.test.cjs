// node-redis as limiters use it: scripts, pipelines, transactions, subscriptions, in both protocols; CLIENT_PACKAGE says which
// version. Run by tests/run.py.
'use strict';

const assert = require('node:assert/strict');
const { after, before, describe, test } = require('node:test');

const { createClient, defineScript, ErrorReply, WatchError } = require(process.env.CLIENT_PACKAGE);
const server = require('./server-under-test.cjs');

const { between, eventually, expectEqual, sleep } = server;
const LEAKY_BUCKET = `
  local state = redis.call('HMGET', KEYS[1], 'level', 'at_ms')
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  local level = math.max(0, (tonumber(state[1]) or 0) - (now_ms - (tonumber(state[2]) or now_ms)) * ARGV[2] / 1000)
  if level + 1 > tonumber(ARGV[1]) then return {0, math.ceil(level)} end
  redis.call('HSET', KEYS[1], 'level', level + 1, 'at_ms', now_ms)
  redis.call('EXPIRE', KEYS[1], 60)
  return {1, math.ceil(level + 1)}`;
const scripts = {
  leaky: defineScript({
    NUMBER_OF_KEYS: 1,
    SCRIPT: LEAKY_BUCKET,
    parseCommand(parser, key, capacity, leak) {
      parser.pushKey(key);
      parser.push(String(capacity), String(leak));
    },
    transformReply: (reply) => reply,
  }),
};

for (const RESP of [2, 3]) {
  describe(`RESP${RESP}`, { timeout: 25_000 }, () => {
    const clients = [];
    let client;
    const key = (name) => `${name}:${RESP}`;
    async function connect() {
      const made = createClient({ RESP, scripts, socket: { host: server.host, port: server.port, reconnectStrategy: 20 } });
      made.on('error', () => {}); // seen through the calls that fail
      clients.push(made);
      return made.connect();
    }
    before(async () => { client = await connect(); });
    after(() => clients.forEach((made) => made.destroy()));

    test('a script of its own is a command', async (t) => {
      const replies = [];
      for (let n = 0; n < 4; n += 1) replies.push(await client.leaky(key('leaky'), 2, 1));
      expectEqual(t, 'replies', replies, [[1, 1], [1, 2], [0, 2], [0, 2]]);
      await sleep(1100);
      expectEqual(t, 'leaked', (await client.leaky(key('leaky'), 2, 1))[0], 1);
      expectEqual(t, 'flush', await client.scriptFlush(), 'OK');
      expectEqual(t, 'when the scripts are gone', (await client.leaky(key('other'), 2, 1)), [1, 1]);
    });

    test('many at once', async (t) => {
      const replies = await Promise.all(Array.from({ length: 100 }, () => client.leaky(key('at-once'), 30, 0)));
      expectEqual(t, 'allowed', replies.filter((reply) => reply[0] === 1).length, 30);
    });

    test('the script cache and its errors', async (t) => {
      const sha = await client.scriptLoad('return {KEYS[1], ARGV[1], #ARGV}');
      const reply = await client.evalSha(sha, { keys: ['k'], arguments: ['a', 'b'] });
      expectEqual(t, 'runs', reply, ['k', 'a', 2]);
      expectEqual(t, 'exists', await client.scriptExists([sha, 'f'.repeat(40)]), [1, 0]);
      const error = await client.evalSha('f'.repeat(40)).catch((reason) => reason);
      expectEqual(t, 'unknown', [error instanceof ErrorReply, error.message],
        [true, 'NOSCRIPT No matching script. Please use EVAL.']);
      const protocol = await client.eval('return {true, false, 2.7, {ok = "FINE"}}');
      expectEqual(t, 'what Lua values become', protocol, [1, null, 2, 'FINE']);
    });

    test('RESP3 types out of a script', async (t) => {
      const typed = await client.eval(`redis.setresp(3)
        local h = redis.call('HSET', KEYS[1], 'a', 1)
        return {redis.call('HGETALL', KEYS[1]).map.a, {double = 1.5}, {map = {k = 'v'}}}`, { keys: [key('typed')] });
      const inner = typed.map((value) => (value !== null && typeof value === 'object' && !Array.isArray(value)
        ? Object.entries(value) : value));
      expectEqual(t, 'values', JSON.stringify(inner),
        RESP === 3 ? '["1",1.5,[["k","v"]]]' : '["1","1.5",["k","v"]]');
    });

    test('commands of one tick are one pipeline', async (t) => {
      const replies = await Promise.allSettled([
        client.set(key('p'), '1'), client.incrBy(key('p'), 5), client.lPush(key('p'), 'x'),
        client.hSet(key('ph'), { f: 1, g: 2 }), client.hGetAll(key('ph')), client.hmGet(key('ph'), ['f', 'none']),
        client.zAdd(key('pz'), [{ score: 1, value: 'a' }, { score: 2.5, value: 'b' }]),
        client.zRangeWithScores(key('pz'), 0, -1), client.zScore(key('pz'), 'b'),
        client.zRange(key('pz'), '(1', '+inf', { BY: 'SCORE' }), client.zRemRangeByScore(key('pz'), '-inf', '(2.5'),
      ]);
      const plain = replies.map(({ value, reason }) => (reason ? reason.message : value));
      expectEqual(t, 'replies', JSON.parse(JSON.stringify(plain)), [
        'OK', 6, 'WRONGTYPE Operation against a key holding the wrong kind of value', 2, { f: '1', g: '2' }, ['1', null], 2,
        [{ value: 'a', score: 1 }, { value: 'b', score: 2.5 }], 2.5, ['b'], 1,
      ]);
    });

    test('a transaction', async (t) => {
      expectEqual(t, 'replies', await client.multi().incr(key('tx')).expire(key('tx'), 100).get(key('tx')).exec(), [1, 1, '1']);
      const error = await client.multi().set(key('text'), 'a').incr(key('text')).exec().catch((reason) => reason);
      expectEqual(t, 'one fails', [error.constructor.name, error.replies.map((reply) => reply.message ?? reply)],
        ['MultiErrorReply', ['OK', 'ERR value is not an integer or out of range']]);
      const refused = await client.multi().addCommand(['SET', key('not')]).exec().catch((reason) => reason.message);
      expectEqual(t, 'refused whole', refused, "ERR wrong number of arguments for 'set' command");
      expectEqual(t, 'with a script', await client.multi().leaky(key('tx-leaky'), 2, 1).exec(), [[1, 1]]);
      expectEqual(t, 'as a pipeline', await client.multi().incr(key('tx')).incr(key('tx')).execAsPipeline(), [2, 3]);
    });

    test('a watched key that another changes', async (t) => {
      const other = await connect();
      await client.watch(key('watched'));
      await other.set(key('watched'), 'theirs');
      const error = await client.multi().set(key('watched'), 'mine').exec().catch((reason) => reason);
      expectEqual(t, 'changed', [error instanceof WatchError, await client.get(key('watched'))], [true, 'theirs']);
      await client.watch(key('watched'));
      expectEqual(t, 'unchanged', await client.multi().append(key('watched'), '!').exec(), [7]);
    });

    test('messages of channels and patterns', async (t) => {
      const subscriber = await connect();
      const heard = [];
      await subscriber.subscribe(['news', 'sport'], (message, channel) => heard.push([channel, message]));
      await subscriber.pSubscribe('limits:*', (message, channel) => heard.push(['pattern', channel, message]));
      expectEqual(t, 'receivers', [await client.publish('news', 'a'), await client.publish('nobody', 'b'),
        await client.publish('limits:user', 'c')], [1, 0, 1]);
      await eventually(async () => assert.equal(heard.length, 2));
      expectEqual(t, 'heard', heard, [['news', 'a'], ['pattern', 'limits:user', 'c']]);
      // In RESP3 a subscribed connection takes commands, too.
      if (RESP === 3) expectEqual(t, 'command meanwhile', await subscriber.get(key('p')), '6');
      await subscriber.unsubscribe('news');
      expectEqual(t, 'receivers afterwards', await client.publish('news', 'd'), 0);
      await subscriber.unsubscribe();
      await subscriber.pUnsubscribe();
      // In RESP2 the client itself answers a Buffer then.
      expectEqual(t, 'commands again', String(await subscriber.get(key('p'))), '6');
    });

    test('a subscriber is there again after the server was killed', async (t) => {
      const subscriber = await connect();
      const heard = [];
      await subscriber.subscribe('after', (message) => heard.push(message));
      await server.restartServer();
      await eventually(async () => assert.equal(await client.publish('after', 'hello'), 1));
      await eventually(async () => assert.ok(heard.length > 0));
      expectEqual(t, 'heard', heard[0], 'hello');
      expectEqual(t, 'script', await client.leaky(key('restart'), 2, 1), [1, 1]);
    });

    test('times to live and keys', async (t) => {
      await client.set(key('ttl'), '1', { expiration: { type: 'PX', value: 60_000 }, condition: 'NX' });
      expectEqual(t, 'pttl', between(await client.pTTL(key('ttl')), 59_000, 60_000), '59000..60000');
      expectEqual(t, 'conditions', [await client.expire(key('ttl'), 5, 'GT'), await client.expire(key('ttl'), 5, 'LT')], [0, 1]);
      const found = [];
      for await (const keys of client.scanIterator({ MATCH: `*ttl:${RESP}`, COUNT: 100 })) found.push(...keys);
      expectEqual(t, 'scan', found, [key('ttl')]);
      expectEqual(t, 'gone', [await client.unlink(key('ttl')), await client.exists(key('ttl'))], [1, 0]);
    });
  });
}
