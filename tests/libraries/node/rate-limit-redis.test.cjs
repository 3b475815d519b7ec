// rate-limit-redis under express-rate-limit in an Express application; CLIENT_PACKAGE says on which client. Run by
// tests/run.py.
'use strict';

const { after, before, describe, test } = require('node:test');

const express = require('express');
const { rateLimit } = require('express-rate-limit');
const { RedisStore } = require('rate-limit-redis');
const server = require('./server-under-test.cjs');

const { between, expectEqual, inTurn, sleep } = server;

async function connect() {
  const library = require(process.env.CLIENT_PACKAGE);
  if (process.env.CLIENT_PACKAGE === 'node-redis-6') {
    const client = library.createClient({ socket: { host: server.host, port: server.port, reconnectStrategy: 20 } });
    client.on('error', () => {}); // seen through the calls that fail
    await client.connect();
    return { call: (...args) => client.sendCommand(args), close: () => client.destroy() };
  }
  const client = new library({ host: server.host, port: server.port });
  client.on('error', () => {});
  return { call: (...args) => client.call(...args), close: () => client.disconnect() };
}

describe('rate-limit-redis', { timeout: 50_000 }, () => {
  let connection;
  const listeners = [];
  before(async () => { connection = await connect(); });
  after(() => {
    for (const listener of listeners) listener.close();
    connection.close();
  });

  /** An application that lets `limit` requests through; resolves to a function that sends it one. */
  async function application(prefix, limit, windowMs, options = {}) {
    const app = express();
    const store = new RedisStore({ prefix, sendCommand: connection.call });
    const keyGenerator = (request) => request.get('x-user') ?? 'anybody';
    app.use(rateLimit({ windowMs, limit, standardHeaders: 'draft-6', legacyHeaders: true, keyGenerator, store, ...options }));
    app.get('/', (request, response) => response.status(request.query.status ? 500 : 200).send('served'));
    app.use((error, request, response, next) => { // eslint-disable-line no-unused-vars
      response.status(503).send(error.message);
    });
    const listener = await new Promise((resolve) => {
      const started = app.listen(0, '127.0.0.1', () => resolve(started));
    });
    listeners.push(listener);
    const url = `http://127.0.0.1:${listener.address().port}/`;
    const get = async (user = 'user', query = '') => {
      const reply = await fetch(url + query, { headers: { 'x-user': user, connection: 'close' } });
      return { status: reply.status, headers: reply.headers, body: await reply.text() };
    };
    return { get, store };
  }

  test('requests are served up to the limit, then answered 429', async (t) => {
    const { get } = await application('window:', 3, 1000);
    const replies = await inTurn(5, () => get());
    expectEqual(t, 'status', replies.map((reply) => reply.status), [200, 200, 200, 429, 429]);
    expectEqual(t, 'remaining', replies.map((reply) => reply.headers.get('ratelimit-remaining')), ['2', '1', '0', '0', '0']);
    expectEqual(t, 'limit', replies[0].headers.get('x-ratelimit-limit'), '3');
    expectEqual(t, 'reset', between(Number(replies[0].headers.get('ratelimit-reset')), 0, 1), '0..1');
    expectEqual(t, 'body', replies[4].body, 'Too many requests, please try again later.');
    expectEqual(t, 'retry after', between(Number(replies[4].headers.get('retry-after')), 0, 1), '0..1');
    await sleep(1100);
    expectEqual(t, 'after the window', (await get()).status, 200);
  });

  test('users are counted apart, under the prefix', async (t) => {
    const { get } = await application('apart:', 1, 60_000);
    const replies = [await get('ann'), await get('ann'), await get('bob')];
    expectEqual(t, 'status', replies.map((reply) => reply.status), [200, 429, 200]);
    expectEqual(t, 'values', await connection.call('MGET', 'apart:ann', 'apart:bob'), ['2', '1']);
    expectEqual(t, 'ttl', between(await connection.call('PTTL', 'apart:ann'), 58_000, 60_000), '58000..60000');
  });

  test('a request that failed is given back', async (t) => {
    const { get, store } = await application('failed:', 2, 60_000, { skipFailedRequests: true });
    const replies = await inTurn(4, () => get('user', '?status=500'));
    expectEqual(t, 'status', replies.map((reply) => reply.status), [500, 500, 500, 500]);
    await server.eventually(async () => {
      const { totalHits } = await store.get('user');
      if (totalHits !== 0) throw new Error(`${totalHits} hits`);
    });
    expectEqual(t, 'served', (await get()).status, 200);
  });

  test('the store itself', async (t) => {
    const { store } = await application('store:', 5, 60_000);
    // What it makes of a nil, which is written down as null.
    expectEqual(t, 'get of none', (await store.get('user')).totalHits, NaN);
    const first = await store.increment('user');
    const second = await store.increment('user');
    expectEqual(t, 'hits', [first.totalHits, second.totalHits], [1, 2]);
    expectEqual(t, 'reset', between(second.resetTime.getTime() - Date.now(), 58_000, 60_001), '58000..60001');
    await store.decrement('user');
    expectEqual(t, 'get', Number((await store.get('user')).totalHits), 1);
    await store.resetKey('user');
    expectEqual(t, 'after reset', (await store.increment('user')).totalHits, 1);
  });

  test('many requests at once are served no more often than allowed', async (t) => {
    const { get } = await application('at-once:', 10, 60_000);
    const replies = await Promise.all(Array.from({ length: 40 }, () => get()));
    expectEqual(t, 'served', replies.filter((reply) => reply.status === 200).length, 10);
    expectEqual(t, 'counted', await connection.call('GET', 'at-once:user'), '40');
  });

  test('goes on when the scripts are gone', async (t) => {
    const { get, store } = await application('flushed:', 2, 60_000);
    await get();
    expectEqual(t, 'flush', await connection.call('SCRIPT', 'FLUSH'), 'OK');
    expectEqual(t, 'status', (await inTurn(2, () => get())).map((reply) => reply.status), [200, 429]);
    await connection.call('SCRIPT', 'FLUSH');
    expectEqual(t, 'get', Number((await store.get('user')).totalHits), 3);
  });

  test('goes on when the server was killed and started again', async (t) => {
    const { get } = await application('restart:', 1, 60_000);
    expectEqual(t, 'before', (await inTurn(2, () => get())).map((reply) => reply.status), [200, 429]);
    await server.restartServer();
    await server.eventually(async () => {
      const reply = await get('other');
      if (reply.status === 503) throw new Error(reply.body);
    });
    expectEqual(t, 'after', (await inTurn(2, () => get())).map((reply) => reply.status), [200, 429]);
  });
});
