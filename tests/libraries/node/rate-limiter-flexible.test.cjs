// rate-limiter-flexible; CLIENT_PACKAGE says on which client. Run by tests/run.py.
'use strict';

const assert = require('node:assert/strict');
const { after, before, describe, test } = require('node:test');

const {
  BurstyRateLimiter, RateLimiterMemory, RateLimiterQueue, RateLimiterRedis, RateLimiterRedisNonAtomic, RateLimiterRes,
  RateLimiterUnion,
} = require('rate-limiter-flexible');
const server = require('./server-under-test.cjs');

const { between, expectEqual, inTurn, sleep } = server;
const isNodeRedis = process.env.CLIENT_PACKAGE === 'node-redis-6';

async function connect() {
  const library = require(process.env.CLIENT_PACKAGE);
  if (isNodeRedis) {
    const client = library.createClient({ socket: { host: server.host, port: server.port, reconnectStrategy: 20 } });
    client.on('error', () => {}); // seen through the calls that fail
    await client.connect();
    return { client, call: (...args) => client.sendCommand(args), close: () => client.destroy() };
  }
  const client = new library({ host: server.host, port: server.port });
  client.on('error', () => {});
  return { client, call: (...args) => client.call(...args), close: () => client.disconnect() };
}

/** The figures of an answer, and whether it was a rejection. */
async function consume(limiter, key, points, duration_ms, options) {
  let rejected = false;
  const res = await limiter.consume(key, points, options).catch((error) => {
    if (!(error instanceof RateLimiterRes)) throw error;
    rejected = true;
    return error;
  });
  return {
    rejected,
    remaining: res.remainingPoints,
    consumed: res.consumedPoints,
    first: res.isFirstInDuration,
    reset_ms: between(res.msBeforeNext, Math.max(0, duration_ms - 5000), duration_ms),
  };
}

describe('rate-limiter-flexible', { timeout: 50_000 }, () => {
  let connection;
  let options;
  before(async () => {
    connection = await connect();
    options = { storeClient: connection.client, useRedisPackage: isNodeRedis };
  });
  after(() => connection.close());

  test('points are consumed, then refused, then there again', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'window', points: 3, duration: 1 });
    const answers = await inTurn(5, () => consume(limiter, 'user', 1, 1000));
    expectEqual(t, 'rejected', answers.map((answer) => answer.rejected), [false, false, false, true, true]);
    expectEqual(t, 'remaining', answers.map((answer) => answer.remaining), [2, 1, 0, 0, 0]);
    expectEqual(t, 'consumed', answers.map((answer) => answer.consumed), [1, 2, 3, 4, 5]);
    expectEqual(t, 'first', answers.map((answer) => answer.first), [true, false, false, false, false]);
    await sleep(1100);
    expectEqual(t, 'after the window', await consume(limiter, 'user', 2, 1000),
      { rejected: false, remaining: 1, consumed: 2, first: true, reset_ms: '0..1000' });
  });

  test('the key is prefixed, a counter, and expires', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'prefix', points: 3, duration: 60 });
    await limiter.consume('user', 2);
    expectEqual(t, 'key', limiter.getKey('user'), 'prefix:user');
    expectEqual(t, 'value', await connection.call('GET', 'prefix:user'), '2');
    expectEqual(t, 'type', await connection.call('TYPE', 'prefix:user'), 'string');
    expectEqual(t, 'ttl', between(await connection.call('TTL', 'prefix:user'), 58, 60), '58..60');
  });

  test('get, penalty, reward, set and delete', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'change', points: 10, duration: 30 });
    const figures = (res) => res && [res.consumedPoints, res.remainingPoints, between(res.msBeforeNext, 25_000, 30_000)];
    expectEqual(t, 'get of none', await limiter.get('user'), null);
    await limiter.consume('user', 4);
    expectEqual(t, 'get', figures(await limiter.get('user')), [4, 6, '25000..30000']);
    expectEqual(t, 'penalty', figures(await limiter.penalty('user', 3)), [7, 3, '25000..30000']);
    expectEqual(t, 'reward', figures(await limiter.reward('user', 5)), [2, 8, '25000..30000']);
    const set = await limiter.set('user', 9, 30);
    expectEqual(t, 'set', [set.consumedPoints, set.remainingPoints], [9, 0]);
    expectEqual(t, 'get after set', figures(await limiter.get('user')), [9, 1, '25000..30000']);
    expectEqual(t, 'delete', await limiter.delete('user'), true);
    expectEqual(t, 'delete again', await limiter.delete('user'), false);
    expectEqual(t, 'get after delete', await limiter.get('user'), null);
  });

  test('a penalty beyond all points keeps out', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'penalty', points: 2, duration: 30 });
    await limiter.penalty('user', 20);
    const answer = await consume(limiter, 'user', 1, 30_000);
    expectEqual(t, 'answer', [answer.rejected, answer.consumed, answer.remaining], [true, 21, 0]);
  });

  test('a block lasts longer than the window', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'block', points: 1, duration: 1, blockDuration: 2 });
    await limiter.consume('user');
    expectEqual(t, 'blocking', (await consume(limiter, 'user', 1, 2000)).rejected, true);
    await sleep(1200);
    expectEqual(t, 'still blocked', (await consume(limiter, 'user', 1, 900)).rejected, true);
    await sleep(1000);
    expectEqual(t, 'free', (await consume(limiter, 'user', 1, 1000)).rejected, false);
    await limiter.block('other', 30);
    expectEqual(t, 'by hand', await consume(limiter, 'other', 1, 30_000),
      { rejected: true, remaining: 0, consumed: 3, first: false, reset_ms: '25000..30000' });
    const forever = await limiter.block('third', 0);
    expectEqual(t, 'for ever', [forever.msBeforeNext, await connection.call('TTL', 'block:third')], [-1, -1]);
  });

  test('points that never expire', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'for-ever', points: 2, duration: 0 });
    const answers = await inTurn(3, () => limiter.consume('user').catch((res) => res));
    expectEqual(t, 'remaining', answers.map((res) => [res.remainingPoints, res.msBeforeNext]), [[1, -1], [0, -1], [0, -1]]);
    expectEqual(t, 'ttl', await connection.call('TTL', 'for-ever:user'), -1);
  });

  test('a duration of its own for one call', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'custom', points: 5, duration: 60 });
    const answer = await consume(limiter, 'user', 1, 10_000, { customDuration: 10 });
    expectEqual(t, 'answer', answer, { rejected: false, remaining: 4, consumed: 1, first: true, reset_ms: '5000..10000' });
  });

  test('many at once get no more than there is', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'at-once', points: 50, duration: 30 });
    const answers = await Promise.allSettled(Array.from({ length: 200 }, () => limiter.consume('user')));
    const allowed = answers.filter((answer) => answer.status === 'fulfilled').map((answer) => answer.value.remainingPoints);
    expectEqual(t, 'allowed', allowed.length, 50);
    assert.deepEqual(allowed.sort((a, b) => b - a), Array.from({ length: 50 }, (_, n) => 49 - n));
    expectEqual(t, 'consumed', (await limiter.get('user')).consumedPoints, 200);
  });

  test('a script of the user takes the place of the usual one', async (t) => {
    const customIncrTtlLuaScript = `
      local consumed = redis.call('incrby', KEYS[1], ARGV[1])
      if consumed <= tonumber(ARGV[3]) then redis.call('expire', KEYS[1], ARGV[2]) end
      return {consumed, redis.call('pttl', KEYS[1])}`;
    const limiter = new RateLimiterRedis({
      ...options, keyPrefix: 'script', points: 2, duration: 2, customIncrTtlLuaScript,
    });
    const answers = await inTurn(3, () => consume(limiter, 'user', 1, 2000));
    expectEqual(t, 'rejected', answers.map((answer) => answer.rejected), [false, false, true]);
  });

  test('a union needs all of its limiters', async (t) => {
    const union = new RateLimiterUnion(
      new RateLimiterRedis({ ...options, keyPrefix: 'short', points: 2, duration: 30 }),
      new RateLimiterRedis({ ...options, keyPrefix: 'long', points: 3, duration: 60 }),
    );
    await union.consume('user');
    const both = await union.consume('user');
    expectEqual(t, 'both', [both.short.remainingPoints, both.long.remainingPoints], [0, 1]);
    const refused = await union.consume('user').catch((res) => res);
    expectEqual(t, 'refused by', Object.keys(refused), ['short']);
  });

  test('bursts come from a limiter of their own', async (t) => {
    const bursty = new BurstyRateLimiter(
      new RateLimiterRedis({ ...options, keyPrefix: 'steady', points: 2, duration: 10 }),
      new RateLimiterRedis({ ...options, keyPrefix: 'burst', points: 3, duration: 20 }),
    );
    const answers = await Promise.allSettled(Array.from({ length: 7 }, () => bursty.consume('user')));
    expectEqual(t, 'allowed', answers.filter((answer) => answer.status === 'fulfilled').length, 5);
  });

  test('a queue lets its tasks through at the rate', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'queue', points: 2, duration: 1 });
    const queue = new RateLimiterQueue(limiter, { maxQueueSize: 10 });
    const started = Date.now();
    const waits = await Promise.all(Array.from({ length: 4 }, async () => {
      await queue.removeTokens(1);
      return Date.now() - started;
    }));
    waits.sort((a, b) => a - b);
    expectEqual(t, 'waits', between(waits[3], 700, 30_000), '700..30000');
  });

  // It is written for ioredis.
  test('the limiter without scripts', { skip: isNodeRedis }, async (t) => {
    const limiter = new RateLimiterRedisNonAtomic({ ...options, keyPrefix: 'plain', points: 2, duration: 1 });
    const answers = await inTurn(3, () => consume(limiter, 'user', 1, 1000));
    expectEqual(t, 'rejected', answers.map((answer) => answer.rejected), [false, false, true]);
    await sleep(1100);
    expectEqual(t, 'after the window', (await consume(limiter, 'user', 1, 1000)).remaining, 1);
  });

  test('goes on when the scripts are gone', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'flushed', points: 3, duration: 30 });
    await limiter.consume('user');
    expectEqual(t, 'flush', await connection.call('SCRIPT', 'FLUSH'), 'OK');
    expectEqual(t, 'remaining', (await limiter.consume('user')).remainingPoints, 1);
  });

  test('goes on when the server was killed and started again', async (t) => {
    const limiter = new RateLimiterRedis({ ...options, keyPrefix: 'restart', points: 3, duration: 30 });
    await inTurn(3, () => limiter.consume('user'));
    await server.restartServer();
    const res = await server.eventually(() => limiter.consume('user'));
    between(res.consumedPoints, 1, 3);
    expectEqual(t, 'counts anew', (await limiter.get('user')).consumedPoints, res.consumedPoints);
  });

  test('an insurance takes over while there is no server', async (t) => {
    const lost = await connect();
    lost.close();
    const limiter = new RateLimiterRedis({
      ...options,
      storeClient: lost.client,
      rejectIfRedisNotReady: true,
      points: 5,
      duration: 30,
      insuranceLimiter: new RateLimiterMemory({ points: 1, duration: 30 }),
    });
    const answers = await Promise.allSettled([limiter.consume('user'), limiter.consume('user')]);
    expectEqual(t, 'answers', answers.map((answer) => answer.status), ['fulfilled', 'rejected']);
  });
});
