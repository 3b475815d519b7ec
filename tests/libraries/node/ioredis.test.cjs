// ioredis as limiters use it: scripts, pipelines, transactions, subscriptions; CLIENT_PACKAGE says which version. Run by
// tests/run.py.
'use strict';

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const { after, before, describe, test } = require('node:test');

const Redis = require(process.env.CLIENT_PACKAGE);
const server = require('./server-under-test.cjs');

const { between, eventually, expectEqual, sleep } = server;
const SLIDING_LOG = `
  local time = redis.call('TIME')
  local now_us = time[1] * 1000000 + time[2]
  redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now_us - ARGV[1] * 1000)
  local count = redis.call('ZCARD', KEYS[1])
  if count >= tonumber(ARGV[2]) then return {0, count} end
  redis.call('ZADD', KEYS[1], now_us, now_us .. ':' .. ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return {1, count + 1}`;

describe('ioredis', { timeout: 50_000 }, () => {
  const clients = [];
  let redis;
  function connect(options = {}) {
    const client = new Redis({ host: server.host, port: server.port, ...options });
    client.on('error', () => {}); // seen through the calls that fail
    clients.push(client);
    return client;
  }
  before(() => { redis = connect(); });
  after(() => clients.forEach((client) => client.disconnect()));

  test('a script of its own is a command', async (t) => {
    redis.defineCommand('slidingLog', { numberOfKeys: 1, lua: SLIDING_LOG });
    const replies = [];
    for (let n = 0; n < 4; n += 1) replies.push(await redis.slidingLog('log', 800, 2, n));
    expectEqual(t, 'replies', replies, [[1, 1], [1, 2], [0, 2], [0, 2]]);
    await sleep(900);
    expectEqual(t, 'after the window', await redis.slidingLog('log', 800, 2, 4), [1, 1]);
    await redis.script('FLUSH');
    expectEqual(t, 'when the scripts are gone', await redis.slidingLog('log', 800, 2, 5), [1, 2]);
  });

  test('a script in a pipeline, many at once', async (t) => {
    const pipeline = redis.pipeline();
    for (let n = 0; n < 100; n += 1) pipeline.slidingLog('log-pipeline', 60_000, 30, n);
    const replies = await pipeline.exec();
    assert.ok(replies.every(([error]) => error === null));
    expectEqual(t, 'allowed', replies.filter(([, reply]) => reply[0] === 1).length, 30);
  });

  test('what Lua values become', async (t) => {
    const returned = async (lua, ...args) => redis.eval(lua, 0, ...args).catch((error) => error.message);
    expectEqual(t, 'numbers', await returned('return {1, 3.99, -3.99, 1e15, "3.99"}'), [1, 3, -3, 1e15, '3.99']);
    expectEqual(t, 'truth', await returned('return {true, false, 1}'), [1, null, 1]);
    expectEqual(t, 'a hole', await returned('return {1, nil, 3}'), [1]);
    expectEqual(t, 'nothing', await returned('local a = 1'), null);
    expectEqual(t, 'false', await returned('return false'), null);
    expectEqual(t, 'nested', await returned('return {1, {2, {3, "x"}}, {}}'), [1, [2, [3, 'x']], []]);
    expectEqual(t, 'status', await returned('return redis.status_reply("FINE")'), 'FINE');
    expectEqual(t, 'ok', await returned('return {ok = "FINE"}'), 'FINE');
    expectEqual(t, 'error', await returned('return redis.error_reply("LIMIT exceeded")'), 'LIMIT exceeded');
    expectEqual(t, 'arguments', await returned('return {ARGV[1] + 1, ARGV[1] .. "x", #ARGV}', '41', 'b'), [42, '41x', 2]);
    expectEqual(t, 'cjson', await returned('return cjson.encode(cjson.decode(ARGV[1]).list)', '{"list":[1,"a",true,null]}'),
      '[1,"a",true,null]');
    expectEqual(t, 'pcall', await returned('local e = redis.pcall("INCR", "t"); return {type(e), e}'), ['number', 1]);
  });

  test('errors of scripts', async (t) => {
    const unknown = await redis.evalsha('f'.repeat(40), 0).catch((error) => error);
    expectEqual(t, 'unknown', [unknown.name, unknown.message],
      ['ReplyError', 'NOSCRIPT No matching script. Please use EVAL.']);
    await redis.set('text', 'abc');
    const message = async (lua, ...keys) => redis.eval(lua, keys.length, ...keys).catch((error) => error.message);
    const inside = await message('return redis.call("INCR", KEYS[1])', 'text');
    expectEqual(t, 'of a command', inside.startsWith('ERR value is not an integer or out of range'), true);
    const caught = await message('local ok, e = pcall(redis.call, "LPUSH", KEYS[1], 1); return {tostring(ok), type(e)}', 'text');
    expectEqual(t, 'caught', caught, ['false', 'string']);
    expectEqual(t, 'does not compile', (await message('return (')).startsWith('ERR Error compiling script'), true);
    expectEqual(t, 'number of keys', await redis.call('EVAL', 'return 1', 'x').catch((error) => error.message),
      'ERR value is not an integer or out of range');
  });

  test('the script cache', async (t) => {
    const lua = 'return {KEYS[1], ARGV[1]}';
    const sha = await redis.script('LOAD', lua);
    expectEqual(t, 'sha', sha, createHash('sha1').update(lua).digest('hex'));
    expectEqual(t, 'exists', await redis.script('EXISTS', sha, 'f'.repeat(40)), [1, 0]);
    expectEqual(t, 'runs', await redis.evalsha(sha, 1, 'k', 'a'), ['k', 'a']);
    expectEqual(t, 'flush', await redis.script('FLUSH'), 'OK');
    expectEqual(t, 'exists no more', await redis.script('EXISTS', sha), [0]);
    await redis.eval(lua, 1, 'k', 'a');
    expectEqual(t, 'EVAL loads, too', await redis.evalsha(sha, 1, 'k', 'b'), ['k', 'b']);
  });

  test('a pipeline is answered in order, errors in their place', async (t) => {
    const replies = await redis.pipeline().set('p', 1).incr('p').lpush('p', 'x').hset('ph', 'f', 1, 'g', 2)
      .hgetall('ph').zadd('pz', 1, 'a', 2.5, 'b').zrange('pz', 0, -1, 'WITHSCORES').zscore('pz', 'b')
      .exec();
    expectEqual(t, 'replies', replies.map(([error, reply]) => (error ? error.message : reply)), [
      'OK', 2, 'WRONGTYPE Operation against a key holding the wrong kind of value', 2, { f: '1', g: '2' }, 2,
      ['a', '1', 'b', '2.5'], '2.5',
    ]);
  });

  test('a transaction', async (t) => {
    const replies = await redis.multi().incr('tx').expire('tx', 100).get('tx').ttl('tx').exec();
    expectEqual(t, 'replies', replies, [[null, 1], [null, 1], [null, '1'], [null, 100]]);
    const failing = await redis.multi().set('tx-text', 'a').incr('tx-text').get('tx-text').exec();
    expectEqual(t, 'one fails', failing.map(([error, reply]) => (error ? error.message : reply)),
      ['OK', 'ERR value is not an integer or out of range', 'a']);
    const refused = await redis.multi().set('tx-not').set('tx-not', 1).exec().catch((error) => error.message);
    expectEqual(t, 'refused whole', refused, 'EXECABORT Transaction discarded because of previous errors.');
    expectEqual(t, 'nothing done', await redis.exists('tx-not'), 0);
    const steps = [await redis.multi({ pipeline: false }), await redis.set('tx-step', 1), await redis.get('tx-step'),
      await redis.discard(), await redis.exists('tx-step')];
    expectEqual(t, 'discarded', steps, ['OK', 'QUEUED', 'QUEUED', 'OK', 0]);
    const script = await redis.multi().eval('return redis.call("INCR", KEYS[1])', 1, 'tx').get('tx').exec();
    expectEqual(t, 'with a script', script, [[null, 2], [null, '2']]);
  });

  test('a watched key that another changes', async (t) => {
    const other = connect();
    await redis.set('watched', 1);
    await redis.watch('watched');
    await other.incr('watched');
    expectEqual(t, 'changed', await redis.multi().set('watched', 100).exec(), null);
    await redis.watch('watched');
    expectEqual(t, 'unchanged', await redis.multi().incr('watched').exec(), [[null, 3]]);
    await redis.watch('watched');
    await redis.unwatch();
    await other.incr('watched');
    expectEqual(t, 'unwatched', await redis.multi().incr('watched').exec(), [[null, 5]]);
  });

  test('optimistic counting never loses a step', async (t) => {
    await redis.set('optimistic', 0);
    await Promise.all(Array.from({ length: 4 }, async () => {
      const client = connect();
      for (let done = 0; done < 5;) {
        await client.watch('optimistic');
        const value = Number(await client.get('optimistic'));
        if (await client.multi().set('optimistic', value + 1).exec() !== null) done += 1;
      }
    }));
    expectEqual(t, 'value', await redis.get('optimistic'), '20');
  });

  test('messages of channels and patterns', async (t) => {
    const subscriber = connect();
    const heard = [];
    subscriber.on('message', (channel, message) => heard.push([channel, message]));
    subscriber.on('pmessage', (pattern, channel, message) => heard.push([pattern, channel, message]));
    expectEqual(t, 'subscribed', await subscriber.subscribe('news', 'sport'), 2);
    expectEqual(t, 'patterns', await subscriber.psubscribe('limits:*'), 3);
    expectEqual(t, 'receivers', [await redis.publish('news', 'a'), await redis.publish('nobody', 'b'),
      await redis.publish('limits:user', 'c'), await redis.eval('return redis.call("PUBLISH", "sport", ARGV[1])', 0, 'd')],
    [1, 0, 1, 1]);
    await eventually(async () => assert.equal(heard.length, 3));
    expectEqual(t, 'heard', heard, [['news', 'a'], ['limits:*', 'limits:user', 'c'], ['sport', 'd']]);
    expectEqual(t, 'channels', (await redis.pubsub('CHANNELS')).sort(), ['news', 'sport']);
    expectEqual(t, 'unsubscribed', await subscriber.unsubscribe('news'), 2);
    expectEqual(t, 'receivers afterwards', await redis.publish('news', 'e'), 0);
    await subscriber.unsubscribe('sport');
    await subscriber.punsubscribe('limits:*');
    expectEqual(t, 'commands again', await subscriber.get('p'), '2');
  });

  test('a subscriber is there again after the server was killed', async (t) => {
    const subscriber = connect();
    const heard = [];
    subscriber.on('message', (channel, message) => heard.push([channel, message]));
    await subscriber.subscribe('after');
    await server.restartServer();
    await eventually(async () => assert.equal(await redis.publish('after', 'hello'), 1));
    await eventually(async () => assert.ok(heard.length > 0));
    expectEqual(t, 'heard', heard[0], ['after', 'hello']);
    expectEqual(t, 'script', await redis.slidingLog('log-restart', 60_000, 2, 1), [1, 1]);
  });

  test('times to live', async (t) => {
    await redis.set('ttl', 1, 'PX', 60_000, 'NX');
    expectEqual(t, 'set again', await redis.set('ttl', 2, 'EX', 5, 'NX'), null);
    expectEqual(t, 'pttl', between(await redis.pttl('ttl'), 59_000, 60_000), '59000..60000');
    expectEqual(t, 'kept', [await redis.set('ttl', 3, 'KEEPTTL'), await redis.ttl('ttl') > 0], ['OK', true]);
    expectEqual(t, 'lost', [await redis.set('ttl', 4), await redis.ttl('ttl')], ['OK', -1]);
    expectEqual(t, 'conditions', [await redis.expire('ttl', 10, 'XX'), await redis.expire('ttl', 10, 'NX'),
      await redis.expire('ttl', 5, 'GT'), await redis.expire('ttl', 5, 'LT')], [0, 1, 0, 1]);
    expectEqual(t, 'gone', [await redis.expire('ttl', 0), await redis.exists('ttl'), await redis.pttl('ttl')], [1, 0, -2]);
  });
});
