// The classes of rate-limiter-flexible for Valkey, whose scripts and functions call `server.call`: CLIENT_PACKAGE is iovalkey, or
// valkey-glide, with which it loads libraries of functions. Run by tests/run.py. redis-server 7 has no `server`, so there they fail:
// what they come to is observed, and is a difference on purpose.
'use strict';

const assert = require('node:assert/strict');
const { after, before, describe, test } = require('node:test');

const { RateLimiterRes, RateLimiterValkey, RateLimiterValkeyGlide } = require('rate-limiter-flexible');
const server = require('./server-under-test.cjs');

const { between, expectEqual, inTurn, observe, sleep } = server;
const isGlide = process.env.CLIENT_PACKAGE === 'valkey-glide';

async function connect() {
  if (isGlide) {
    const { GlideClient } = require('@valkey/valkey-glide');
    const client = await GlideClient.createClient({ addresses: [{ host: server.host, port: server.port }] });
    return { client, call: (...args) => client.customCommand(args), close: () => client.close() };
  }
  const Valkey = require('iovalkey');
  const client = new Valkey({ host: server.host, port: server.port });
  client.on('error', () => {}); // seen through the calls that fail
  return { client, call: (...args) => client.call(...args), close: () => client.disconnect() };
}

/** What a call comes to: the figures of an answer or a rejection, or that there is no `server`. */
async function outcome(call) {
  try {
    return await call();
  } catch (error) {
    if (error instanceof RateLimiterRes) return figures(error, true);
    if (/nonexistent global variable 'server'/.test(error.message)) return 'no server';
    throw error;
  }
}

function figures(res, rejected = false) {
  return res && [rejected, res.consumedPoints, res.remainingPoints, between(res.msBeforeNext, 0, 30_000)];
}

describe('rate-limiter-flexible-valkey', { timeout: 50_000 }, () => {
  let connection;
  before(async () => {
    connection = await connect();
  });
  after(() => connection.close());

  const make = (options) => new (isGlide ? RateLimiterValkeyGlide : RateLimiterValkey)({ storeClient: connection.client, ...options });
  const consume = (limiter, points) => outcome(async () => figures(await limiter.consume('user', points)));

  test('points are consumed, then refused, then there again', async (t) => {
    const limiter = make({ keyPrefix: 'window', points: 3, duration: 1 });
    observe(t, 'answers', await inTurn(5, () => consume(limiter, 1)));
    await sleep(1100);
    observe(t, 'after the window', await consume(limiter, 2));
  });

  test('get, penalty, reward and delete', async (t) => {
    const limiter = make({ keyPrefix: 'change', points: 10, duration: 30 });
    observe(t, 'get of none', await outcome(() => limiter.get('user')));
    observe(t, 'consumed', await consume(limiter, 4));
    observe(t, 'penalty', await outcome(async () => figures(await limiter.penalty('user', 3))));
    observe(t, 'reward', await outcome(async () => figures(await limiter.reward('user', 5))));
    observe(t, 'get', await outcome(async () => figures(await limiter.get('user'))));
    observe(t, 'value', await connection.call('GET', 'change:user'));
    observe(t, 'delete', await limiter.delete('user'));
    expectEqual(t, 'delete again', await limiter.delete('user'), false);
  });

  test('many at once get no more than there is', async (t) => {
    const limiter = make({ keyPrefix: 'at-once', points: 50, duration: 30 });
    const answers = await Promise.allSettled(Array.from({ length: 200 }, () => limiter.consume('user')));
    observe(t, 'allowed', answers.filter((answer) => answer.status === 'fulfilled').length);
  });

  test('its libraries are there, and go', { skip: !isGlide }, async (t) => {
    const limiter = make({ keyPrefix: 'libraries', points: 3, duration: 30 });
    await consume(limiter, 1);
    const names = async () => (await connection.client.functionList())
      .map((library) => library.find?.((field) => field.key === 'library_name')?.value ?? library.library_name).sort();
    observe(t, 'libraries', await names());
    // It forgets its libraries, then fails at a check of its own, on every server.
    await assert.rejects(limiter.close(), /insuranceLimiter must be instance/);
    expectEqual(t, 'after close', await names(), []);
  });
});
