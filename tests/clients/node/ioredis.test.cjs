// ioredis against a node; CLIENT_PACKAGE says which version. Run by tests/run.py.
'use strict';

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');

const Redis = require(process.env.CLIENT_PACKAGE);
const node = require('./node-under-test.cjs');

const MODES = process.env.CLIENT_PACKAGE === 'ioredis-5'
  ? [{ name: 'RESP2', options: {}, form: 'array' }]
  : [
    { name: 'RESP2', options: { protocol: 2 }, form: 'array' },
    { name: 'RESP3', options: { protocol: 3 }, form: 'flat' },
    { name: 'RESP3 as objects', options: { protocol: 3, replyMapping: 'resp3' }, form: 'object' },
  ];
const LIMIT_5 = ['LIMIT', 5, 'PER', '1m'];

for (const { name, options: protocol, form } of MODES) {
  describe(name, { timeout: 30_000 }, () => {
    async function withClient(options, use) {
      const client = new Redis({ host: node.host, port: node.port, ...protocol, ...options });
      client.on('error', () => {}); // seen through the calls that fail
      try {
        await use(client);
      } finally {
        client.disconnect();
      }
    }

    test('connects with a name and a database', async () => {
      const key = node.newKey('database');
      await withClient({ db: 3, connectionName: 'checkout' }, async (third) => {
        assert.equal(await third.client('GETNAME'), 'checkout');
        await third.call('RL.CHECK', key, ...LIMIT_5);
        assert.equal(await third.exists(key), 1);
        await withClient({}, async (first) => assert.equal(await first.exists(key), 0));
      });
    });

    test('RL.CHECK allows five of seven', () => withClient({}, async (client) => {
      const key = node.newKey('check');
      const replies = [];
      for (let n = 0; n < 7; n += 1) replies.push(node.fieldsOf(await client.call('RL.CHECK', key, ...LIMIT_5), form));
      node.assertFiveOfSevenAllowed(replies);
    }));

    test('CL.THROTTLE allows five of seven', () => withClient({}, async (client) => {
      const key = node.newKey('throttle');
      const replies = [];
      for (let n = 0; n < 7; n += 1) replies.push(await client.call('CL.THROTTLE', key, 4, 5, 60));
      node.assertThrottledAfterFive(replies);
    }));

    test('a bucket is a key', () => withClient({}, async (client) => {
      const key = node.newKey('bucket');
      await client.call('RL.CHECK', key, ...LIMIT_5);
      assert.equal(await client.exists(key), 1);
      assert.equal(await client.type(key), 'bucket');
      assert.ok(await client.ttl(key) > 0);
      const found = [];
      for await (const keys of client.scanStream({ match: `${key}*` })) found.push(...keys);
      assert.deepEqual(found, [key]);
      assert.equal(await client.del(key), 1);
      assert.equal(await client.exists(key), 0);
      assert.equal(await client.type(key), 'none');
      assert.equal(await client.ttl(key), -2);
    }));

    test('a pipeline is answered in order', () => withClient({}, async (client) => {
      const key = node.newKey('pipeline');
      const pipeline = client.pipeline();
      for (let n = 0; n < 1000; n += 1) pipeline.call('RL.CHECK', key, 'LIMIT', 1000, 'PER', '30d');
      const replies = await pipeline.exec();
      node.assertCountsDownFrom999(replies.map(([error, reply]) => {
        assert.equal(error, null);
        return node.fieldsOf(reply, form);
      }));
    }));

    test('an error is a ReplyError', () => withClient({}, async (client) => {
      const key = node.newKey('error');
      await assert.rejects(client.call('RL.CHECK', key, 'LIMIT', 0, 'PER', '1m'), { name: 'ReplyError' });
      await assert.rejects(client.call('RL.NO-SUCH-COMMAND', key), { name: 'ReplyError', message: /unknown command/ });
      const [first, second, third] = await client.pipeline()
        .call('RL.CHECK', key, ...LIMIT_5)
        .call('RL.CHECK', key, 'LIMIT', 'five', 'PER', '1m')
        .call('RL.CHECK', key, ...LIMIT_5)
        .exec();
      assert.deepEqual([first[0], third[0]], [null, null]);
      assert.equal(second[0].name, 'ReplyError');
    }));

    test('recovers when the node is killed and started again', () => withClient({}, async (client) => {
      const key = node.newKey('reconnect');
      await client.call('RL.CHECK', key, ...LIMIT_5);
      const closed = new Promise((resolve) => { client.once('close', resolve); });
      await node.restartNode();
      await closed;
      await node.eventually(() => client.call('RL.CHECK', key, ...LIMIT_5));
      assert.equal(await client.exists(key), 1);
    }));

    test('a password is asked for', async () => {
      const key = node.newKey('password');
      await withClient({ port: node.passwordPort, password: node.password }, async (client) => {
        assert.equal(node.fieldsOf(await client.call('RL.CHECK', key, ...LIMIT_5), form).allowed, 1);
      });
      await withClient({ port: node.passwordPort }, async (client) => {
        await assert.rejects(client.call('RL.CHECK', key, ...LIMIT_5), /NOAUTH/);
      });
      const options = { port: node.passwordPort, password: 'wrong', retryStrategy: null };
      await withClient({ ...options, lazyConnect: true }, async (client) => {
        const errors = [];
        client.on('error', (error) => errors.push(error.message));
        await assert.rejects(client.connect().then(() => client.call('RL.CHECK', key, ...LIMIT_5)));
        assert.match(errors.join('\n'), /WRONGPASS/);
      });
    });
  });
}
