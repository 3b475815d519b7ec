// @fastify/rate-limit in a Fastify application, on ioredis; CLIENT_PACKAGE says which version. Run by tests/run.py.
'use strict';

const { after, before, describe, test } = require('node:test');

const Fastify = require('fastify');
const rateLimit = require('@fastify/rate-limit');
const server = require('./server-under-test.cjs');

const Redis = require(process.env.CLIENT_PACKAGE);
const { between, expectEqual, inTurn, sleep } = server;

describe('@fastify/rate-limit', { timeout: 50_000 }, () => {
  let redis;
  const applications = [];
  before(() => {
    redis = new Redis({ host: server.host, port: server.port, maxRetriesPerRequest: 1 });
    redis.on('error', () => {}); // seen through the calls that fail
  });
  after(async () => {
    for (const application of applications) await application.close();
    redis.disconnect();
  });

  async function application(nameSpace, options, routes = () => {}) {
    const fastify = Fastify();
    applications.push(fastify);
    await fastify.register(rateLimit, {
      redis, nameSpace, keyGenerator: (request) => request.headers['x-user'] ?? 'user', ...options,
    });
    fastify.get('/', async () => 'served');
    routes(fastify);
    return (url = '/', user = 'user') => fastify.inject({ url, headers: { 'x-user': user } });
  }
  const status = (replies) => replies.map((reply) => reply.statusCode);
  const header = (replies, name) => replies.map((reply) => reply.headers[name]);

  test('requests are served up to the limit, then answered 429', async (t) => {
    const get = await application('window-', { max: 3, timeWindow: 1000 });
    const replies = await inTurn(5, () => get());
    expectEqual(t, 'status', status(replies), [200, 200, 200, 429, 429]);
    expectEqual(t, 'limit', header(replies, 'x-ratelimit-limit'), ['3', '3', '3', '3', '3']);
    expectEqual(t, 'remaining', header(replies, 'x-ratelimit-remaining'), ['2', '1', '0', '0', '0']);
    for (const reply of replies) between(Number(reply.headers['x-ratelimit-reset']), 0, 1);
    expectEqual(t, 'retry after', replies[4].headers['retry-after'], '1');
    expectEqual(t, 'body', replies[4].json(),
      { statusCode: 429, error: 'Too Many Requests', message: 'Rate limit exceeded, retry in 1 second' });
    await sleep(1100);
    expectEqual(t, 'after the window', status([await get()]), [200]);
  });

  test('users are counted apart, in the name space', async (t) => {
    const get = await application('apart-', { max: 1, timeWindow: 60_000 });
    expectEqual(t, 'status', status([await get('/', 'ann'), await get('/', 'ann'), await get('/', 'bob')]), [200, 429, 200]);
    expectEqual(t, 'values', await redis.mget('apart-ann', 'apart-bob'), ['2', '1']);
    expectEqual(t, 'ttl', between(await redis.pttl('apart-ann'), 58_000, 60_000), '58000..60000');
  });

  test('a route has a limit of its own', async (t) => {
    const get = await application('route-', { max: 2, timeWindow: 60_000 }, (fastify) => {
      fastify.get('/search', { config: { rateLimit: { max: 1, timeWindow: 30_000 } } }, async () => 'found');
      fastify.get('/free', { config: { rateLimit: false } }, async () => 'free');
    });
    expectEqual(t, 'search', status(await inTurn(2, () => get('/search'))), [200, 429]);
    expectEqual(t, 'others', status(await inTurn(3, () => get())), [200, 200, 429]);
    expectEqual(t, 'free', status(await inTurn(4, () => get('/free'))), [200, 200, 200, 200]);
    expectEqual(t, 'keys', (await redis.keys('route-*')).sort(), ['route-GET/search-user', 'route-user']);
  });

  test('who goes on asking waits the whole window again', async (t) => {
    const get = await application('exceeding-', { max: 1, timeWindow: 1500, continueExceeding: true });
    await get();
    await sleep(900);
    expectEqual(t, 'again', status([await get()]), [429]);
    await sleep(900);
    expectEqual(t, 'still refused', status([await get()]), [429]);
    await sleep(1600);
    expectEqual(t, 'free', status([await get()]), [200]);
  });

  test('the wait doubles with exponential back-off', async (t) => {
    const get = await application('backoff-', { max: 1, timeWindow: 10_000, exponentialBackoff: true });
    await get();
    const waits = await inTurn(4, async () => {
      await get();
      return redis.pttl('backoff-user');
    });
    const ranges = waits.map((wait, n) => between(wait, 10_000 * 2 ** n - 5000, 10_000 * 2 ** n));
    expectEqual(t, 'waits', ranges, ['5000..10000', '15000..20000', '35000..40000', '75000..80000']);
  });

  test('the wait has an end even after very many', async (t) => {
    const get = await application('long-', { max: 1, timeWindow: 1000, exponentialBackoff: true });
    await get();
    await redis.incrby('long-user', 30);
    expectEqual(t, 'status', status([await get()]), [429]);
    expectEqual(t, 'wait', between(await redis.pttl('long-user'), 2 ** 30 * 1000 - 5000, 2 ** 30 * 1000),
      `${2 ** 30 * 1000 - 5000}..${2 ** 30 * 1000}`);
  });

  test('who was refused too often is banned', async (t) => {
    const get = await application('ban-', { max: 1, ban: 1, timeWindow: 60_000 });
    expectEqual(t, 'status', status(await inTurn(4, () => get())), [200, 429, 403, 403]);
  });

  test('many requests at once are served no more often than allowed', async (t) => {
    const get = await application('at-once-', { max: 20, timeWindow: 60_000 });
    const replies = await Promise.all(Array.from({ length: 100 }, () => get()));
    expectEqual(t, 'served', status(replies).filter((code) => code === 200).length, 20);
    expectEqual(t, 'counted', await redis.get('at-once-user'), '100');
  });

  test('goes on when the scripts are gone', async (t) => {
    const get = await application('flushed-', { max: 2, timeWindow: 60_000 });
    await get();
    expectEqual(t, 'flush', await redis.script('FLUSH'), 'OK');
    expectEqual(t, 'status', status(await inTurn(2, () => get())), [200, 429]);
  });

  test('an error of the store can be passed over', async (t) => {
    await redis.set('skip-user', 'no number');
    const strict = await application('skip-', { max: 1, timeWindow: 60_000 });
    const strictReply = await strict();
    expectEqual(t, 'strict', [strictReply.statusCode, strictReply.json().message.includes('not an integer')], [500, true]);
    const lenient = await application('skip-', { max: 1, timeWindow: 60_000, skipOnError: true });
    expectEqual(t, 'lenient', status(await inTurn(2, () => lenient())), [200, 200]);
  });

  test('goes on when the server was killed and started again', async (t) => {
    const get = await application('restart-', { max: 1, timeWindow: 60_000 });
    expectEqual(t, 'before', status(await inTurn(2, () => get())), [200, 429]);
    await server.restartServer();
    await server.eventually(async () => {
      const reply = await get('/', 'other');
      if (reply.statusCode === 500) throw new Error(reply.body);
    });
    expectEqual(t, 'after', status(await inTurn(2, () => get())), [200, 429]);
  });
});
