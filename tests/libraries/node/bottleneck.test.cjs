// Bottleneck, clustered over its Redis store; CLIENT_PACKAGE says on which client. Run by tests/run.py.
'use strict';

const assert = require('node:assert/strict');
const { after, before, describe, test } = require('node:test');

const Bottleneck = require('bottleneck');
const Redis = require(process.env.CLIENT_PACKAGE);
const server = require('./server-under-test.cjs');

const { between, eventually, expectEqual, inTurn, observe, sleep } = server;
const OVERWEIGHT = 'Impossible to add a job having a weight of 5 to a limiter having a maxConcurrent setting of 4';
// It knows node_redis up to version 3.
const isNodeRedis = process.env.CLIENT_PACKAGE === 'node-redis-3';

/**
 * Its heartbeat has no catch: one that is under way when the server is killed, or when the limiter is disconnected, rejects where
 * nobody hears it. The test runner would count that as a failure of this file.
 */
function ignoreLostHeartbeats() {
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', (error) => {
    if (error?.message !== 'Connection is closed.') throw error;
  });
}

describe('bottleneck', { timeout: 55_000 }, () => {
  const limiters = [];
  let direct; // a connection of ours, to look at the keys
  before(() => {
    ignoreLostHeartbeats();
    direct = new (require('ioredis-5'))({ host: server.host, port: server.port });
    direct.on('error', () => {});
  });
  after(async () => {
    for (const limiter of limiters) limiter.disconnect(false);
    direct.disconnect();
  });

  async function limiterOf(id, options = {}) {
    const limiter = new Bottleneck({
      id,
      datastore: isNodeRedis ? 'redis' : 'ioredis',
      Redis,
      clientOptions: { host: server.host, port: server.port },
      clearDatastore: false,
      ...options,
    });
    limiter.on('error', () => {}); // seen through the calls that fail
    limiters.push(limiter);
    await limiter.ready();
    return limiter;
  }

  const jobs = (limiter, count, work, options = {}) => (
    Array.from({ length: count }, (_, n) => limiter.schedule(options, () => work(n))));

  test('jobs of two processes keep their distance', async (t) => {
    const [first, second] = [await limiterOf('distance', { minTime: 100 }), await limiterOf('distance')];
    const starts = [];
    // Only from here on: the first job may itself start late on a busy machine.
    const asked = Date.now();
    await Promise.all([...jobs(first, 4, async () => starts.push(Date.now())),
      ...jobs(second, 4, async () => starts.push(Date.now()))]);
    starts.sort((a, b) => a - b);
    expectEqual(t, 'jobs', starts.length, 8);
    expectEqual(t, 'in all', between(starts[7] - asked, 690, 30_000), '690..30000');
  });

  test('no more run at once than allowed, over two processes', async (t) => {
    const [first, second] = [await limiterOf('at-once', { maxConcurrent: 3 }), await limiterOf('at-once')];
    let running = 0;
    let most = 0;
    const work = async () => {
      running += 1;
      most = Math.max(most, running);
      await sleep(40);
      running -= 1;
    };
    await Promise.all([...jobs(first, 12, work), ...jobs(second, 12, work)]);
    expectEqual(t, 'at once', most, 3);
    expectEqual(t, 'done', await second.done(), 24);
    expectEqual(t, 'running', await first.running(), 0);
  });

  test('a reservoir is used up and filled again', async (t) => {
    const started = Date.now();
    const limiter = await limiterOf('reservoir', {
      reservoir: 3, reservoirRefreshAmount: 3, reservoirRefreshInterval: 1500, heartbeatInterval: 250,
    });
    const waits = [];
    const all = jobs(limiter, 5, async () => waits.push(Date.now() - started));
    await Promise.all(all.slice(0, 3));
    expectEqual(t, 'left', await limiter.currentReservoir(), 0);
    expectEqual(t, 'could start', await limiter.check(), false);
    await Promise.all(all);
    expectEqual(t, 'waits', between(waits[4], 1450, 30_000), '1450..30000');
    expectEqual(t, 'left at the end', await limiter.currentReservoir(), 1);
  });

  test('a reservoir that grows by itself', async (t) => {
    const limiter = await limiterOf('growing', {
      reservoir: 0, reservoirIncreaseAmount: 2, reservoirIncreaseInterval: 500, reservoirIncreaseMaximum: 4,
      heartbeatInterval: 250,
    });
    await Promise.all(jobs(limiter, 2, async () => {}));
    await sleep(1700);
    expectEqual(t, 'full', await limiter.currentReservoir(), 4);
  });

  test('a reservoir is changed by hand, for all processes', async (t) => {
    const [first, second] = [await limiterOf('by-hand', { reservoir: 0 }), await limiterOf('by-hand')];
    const waiting = first.schedule(async () => 'done');
    expectEqual(t, 'added', await second.incrementReservoir(2), 2);
    expectEqual(t, 'waiting job', await waiting, 'done');
    expectEqual(t, 'left', await first.currentReservoir(), 1);
    await second.updateSettings({ reservoir: 10 });
    expectEqual(t, 'set', await first.currentReservoir(), 10);
  });

  test('jobs weigh, and too heavy ones are refused', async (t) => {
    const limiter = await limiterOf('weight', { maxConcurrent: 4, reservoir: 10 });
    await Promise.all([limiter.schedule({ weight: 3 }, async () => {}), limiter.schedule({ weight: 4 }, async () => {})]);
    expectEqual(t, 'left', await limiter.currentReservoir(), 3);
    const refused = await limiter.schedule({ weight: 5 }, async () => {}).catch((error) => error.message);
    observe(t, 'refused', refused); // see 'the loss of its settings is noticed'
    assert.ok([OVERWEIGHT, 'ERR OVERWEIGHT:5:4'].includes(refused), refused);
  });

  test('what is above high water is dropped', async (t) => {
    const limiter = await limiterOf('high-water', {
      maxConcurrent: 1, highWater: 1, strategy: Bottleneck.strategy.OVERFLOW,
    });
    const answers = await Promise.allSettled(jobs(limiter, 5, () => sleep(150)));
    const dropped = answers.filter((answer) => answer.status === 'rejected');
    expectEqual(t, 'dropped', [dropped.length, dropped[0].reason.message], [3, 'This job has been dropped by Bottleneck']);
  });

  test('a blocked limiter pays a penalty', async (t) => {
    const limiter = await limiterOf('penalty', {
      maxConcurrent: 1, highWater: 0, minTime: 50, penalty: 800, strategy: Bottleneck.strategy.BLOCK,
    });
    const answers = await Promise.allSettled(jobs(limiter, 3, () => sleep(100)));
    expectEqual(t, 'some dropped', answers.some((answer) => answer.status === 'rejected'), true);
    const refused = await limiter.schedule(async () => 'done').catch((error) => error.message);
    expectEqual(t, 'while blocked', refused, 'This job has been dropped by Bottleneck');
    await sleep(1000);
    expectEqual(t, 'afterwards', await limiter.schedule(async () => 'done'), 'done');
  });

  test('a job that never ends expires', async (t) => {
    const limiter = await limiterOf('expiration', { maxConcurrent: 1 });
    const stuck = limiter.schedule({ expiration: 300 }, () => sleep(5000, undefined, { ref: false }));
    const next = limiter.schedule(async () => 'done');
    const error = await stuck.catch((reason) => reason.message);
    expectEqual(t, 'expired', error, 'This job timed out after 300 ms.');
    expectEqual(t, 'next', await next, 'done');
  });

  test('a message reaches the other process', async (t) => {
    const [first, second] = [await limiterOf('message'), await limiterOf('message')];
    const heard = new Promise((resolve) => { second.once('message', resolve); });
    await first.publish('hello, Grüße');
    expectEqual(t, 'message', await heard, 'hello, Grüße');
  });

  test('a group has a limiter a key', async (t) => {
    const group = new Bottleneck.Group({
      id: 'group',
      datastore: isNodeRedis ? 'redis' : 'ioredis',
      Redis,
      clientOptions: { host: server.host, port: server.port },
      reservoir: 2,
      timeout: 60_000,
    });
    group.on('error', () => {});
    try {
      await Promise.all(['ann', 'ann', 'bob'].map((user) => group.key(user).schedule(async () => {})));
      expectEqual(t, 'left', [await group.key('ann').currentReservoir(), await group.key('bob').currentReservoir()], [0, 1]);
      expectEqual(t, 'keys', (await group.clusterKeys()).sort(), ['ann', 'bob']);
      expectEqual(t, 'key expires', between(await direct.pttl('b_group-ann_settings'), 55_000, 60_000), '55000..60000');
      expectEqual(t, 'deleted', await group.deleteKey('ann'), true);
      expectEqual(t, 'keys left', await group.clusterKeys(), ['bob']);
    } finally {
      await group.disconnect(false);
    }
  });

  test('its keys have the names and types that its scripts expect', async (t) => {
    const limiter = await limiterOf('keys', { maxConcurrent: 5 });
    await limiter.schedule({ id: 'job', expiration: 10_000, weight: 2 }, async () => {
      const keys = (await direct.keys('b_keys_*')).sort();
      const types = await Promise.all(keys.map((key) => direct.type(key)));
      expectEqual(t, 'types', keys.map((key, n) => [key.replace('b_keys_', ''), types[n]]), [
        ['client_last_registered', 'zset'], ['client_last_seen', 'zset'], ['client_num_queued', 'hash'],
        ['client_running', 'zset'], ['job_clients', 'hash'], ['job_expirations', 'zset'], ['job_weights', 'hash'],
        ['settings', 'hash'],
      ]);
      expectEqual(t, 'running', await direct.hget('b_keys_settings', 'running'), '2');
    });
  });

  test('a store is cleared at the start when asked', async (t) => {
    const first = await limiterOf('cleared', { reservoir: 5 });
    await first.schedule(async () => {});
    expectEqual(t, 'joined', await (await limiterOf('cleared', { reservoir: 100 })).currentReservoir(), 4);
    const third = await limiterOf('cleared', { reservoir: 100, clearDatastore: true });
    expectEqual(t, 'cleared', await third.currentReservoir(), 100);
  });

  test('goes on when the scripts are gone', async (t) => {
    const limiter = await limiterOf('flushed', { reservoir: 10 });
    await limiter.schedule(async () => {});
    expectEqual(t, 'flush', await direct.script('FLUSH'), 'OK');
    // On node_redis it does not load them again: that call fails, on any server.
    const answer = await limiter.currentReservoir().catch((error) => error.code ?? error.message);
    expectEqual(t, 'answer', answer, isNodeRedis ? 'NOSCRIPT' : 9);
    if (isNodeRedis) await limiterOf('loads-them-again');
    expectEqual(t, 'afterwards', await limiter.currentReservoir(), 9);
  });

  test('many jobs of four processes never take more than there is', async (t) => {
    const four = await inTurn(4, () => limiterOf('exact', { reservoir: 20 }));
    let done = 0;
    const all = four.flatMap((limiter) => jobs(limiter, 15, async () => { done += 1; }));
    for (const job of all) job.catch(() => {}); // those that wait are dropped below
    await eventually(async () => assert.equal(done, 20));
    await sleep(300);
    expectEqual(t, 'done', done, 20);
    expectEqual(t, 'left', await four[0].currentReservoir(), 0);
    await Promise.all(four.map((limiter) => limiter.stop({ dropWaitingJobs: true })));
    expectEqual(t, 'done in the end', done, 20);
  });

  test('the loss of its settings is noticed', async (t) => {
    const limiter = await limiterOf('lost', { reservoir: 7 });
    await direct.del('b_lost_settings');
    // Its script answers error_reply('SETTINGS_KEY_NOT_FOUND'), which it compares with the whole error to set itself up
    // again. Redis has put ERR before such an error since version 7; Tollgate answers it as it is.
    const answer = await limiter.currentReservoir().catch((error) => error.message);
    observe(t, 'answer', answer);
    assert.ok([7, 'ERR SETTINGS_KEY_NOT_FOUND'].includes(answer), answer);
  });

  test('a limiter made after the server was killed and started again works', async (t) => {
    await server.restartServer();
    const limiter = await limiterOf('restart', { reservoir: 2 });
    await limiter.schedule(async () => {});
    expectEqual(t, 'left', await limiter.currentReservoir(), 1);
  });
});
