// node-redis against a node; CLIENT_PACKAGE says which version. Run by tests/run.py.
'use strict';

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');

const { createClient, ErrorReply } = require(process.env.CLIENT_PACKAGE);
const node = require('./node-under-test.cjs');

const MODES = process.env.CLIENT_PACKAGE === 'node-redis-4'
  ? [{ name: 'RESP2', options: {}, form: 'array' }]
  : [
    { name: 'RESP2', options: { RESP: 2 }, form: 'array' },
    { name: 'RESP3', options: { RESP: 3 }, form: 'object' },
  ];
const LIMIT_5 = ['LIMIT', '5', 'PER', '1m'];

for (const { name, options: protocol, form } of MODES) {
  describe(name, { timeout: 30_000 }, () => {
    async function withClient({ port = node.port, reconnectStrategy = 20, ...options }, use) {
      const client = createClient({
        socket: { host: node.host, port, reconnectStrategy },
        ...protocol,
        ...options,
      });
      client.on('error', () => {}); // seen through the calls that fail
      try {
        await client.connect();
        await use(client);
      } finally {
        if (client.isOpen) await (client.destroy ? client.destroy() : client.disconnect());
      }
    }

    test('connects with a name and a database', async () => {
      const key = node.newKey('database');
      await withClient({ database: 3, name: 'checkout' }, async (third) => {
        assert.equal(await third.clientGetName(), 'checkout');
        await third.sendCommand(['RL.CHECK', key, ...LIMIT_5]);
        assert.equal(await third.exists(key), 1);
        await withClient({}, async (first) => assert.equal(await first.exists(key), 0));
      });
    });

    test('RL.CHECK allows five of seven', () => withClient({}, async (client) => {
      const key = node.newKey('check');
      const replies = [];
      for (let n = 0; n < 7; n += 1) {
        replies.push(node.fieldsOf(await client.sendCommand(['RL.CHECK', key, ...LIMIT_5]), form));
      }
      node.assertFiveOfSevenAllowed(replies);
    }));

    test('CL.THROTTLE allows five of seven', () => withClient({}, async (client) => {
      const key = node.newKey('throttle');
      const replies = [];
      for (let n = 0; n < 7; n += 1) replies.push(await client.sendCommand(['CL.THROTTLE', key, '4', '5', '60']));
      node.assertThrottledAfterFive(replies);
    }));

    test('a bucket is a key', () => withClient({}, async (client) => {
      const key = node.newKey('bucket');
      await client.sendCommand(['RL.CHECK', key, ...LIMIT_5]);
      assert.equal(await client.exists(key), 1);
      assert.equal(await client.type(key), 'bucket');
      assert.ok(await client.ttl(key) > 0);
      const found = [];
      // One key at a time in version 4, a batch at a time since.
      for await (const keys of client.scanIterator({ MATCH: `${key}*` })) found.push(keys);
      assert.deepEqual(found.flat(), [key]);
      assert.equal(await client.del(key), 1);
      assert.equal(await client.exists(key), 0);
      assert.equal(await client.type(key), 'none');
      assert.equal(await client.ttl(key), -2);
    }));

    test('a pipeline is answered in order', () => withClient({}, async (client) => {
      const key = node.newKey('pipeline');
      // Commands of one tick go out as one pipeline.
      const replies = await Promise.all(Array.from({ length: 1000 }, () => (
        client.sendCommand(['RL.CHECK', key, 'LIMIT', '1000', 'PER', '30d']))));
      node.assertCountsDownFrom999(replies.map((reply) => node.fieldsOf(reply, form)));
    }));

    test('an error is an ErrorReply', () => withClient({}, async (client) => {
      const key = node.newKey('error');
      const isErrorReply = (error) => error instanceof ErrorReply;
      await assert.rejects(client.sendCommand(['RL.CHECK', key, 'LIMIT', '0', 'PER', '1m']), isErrorReply);
      await assert.rejects(client.sendCommand(['RL.NO-SUCH-COMMAND', key]), /unknown command/);
      const [first, second, third] = await Promise.allSettled([
        client.sendCommand(['RL.CHECK', key, ...LIMIT_5]),
        client.sendCommand(['RL.CHECK', key, 'LIMIT', 'five', 'PER', '1m']),
        client.sendCommand(['RL.CHECK', key, ...LIMIT_5]),
      ]);
      assert.deepEqual([first.status, second.status, third.status], ['fulfilled', 'rejected', 'fulfilled']);
      assert.ok(isErrorReply(second.reason));
    }));

    test('recovers when the node is killed and started again', () => withClient({}, async (client) => {
      const key = node.newKey('reconnect');
      await client.sendCommand(['RL.CHECK', key, ...LIMIT_5]);
      const lost = new Promise((resolve) => { client.once('reconnecting', resolve); });
      await node.restartNode();
      await lost;
      await node.eventually(() => client.sendCommand(['RL.CHECK', key, ...LIMIT_5]));
      assert.equal(await client.exists(key), 1);
    }));

    test('a password is asked for', async () => {
      const key = node.newKey('password');
      await withClient({ port: node.passwordPort, password: node.password }, async (client) => {
        const reply = await client.sendCommand(['RL.CHECK', key, ...LIMIT_5]);
        assert.equal(node.fieldsOf(reply, form).allowed, 1);
      });
      const options = { port: node.passwordPort, reconnectStrategy: false };
      await assert.rejects(withClient({ ...options, password: 'wrong' }, (client) => client.ping()), /WRONGPASS/);
      await assert.rejects(withClient(options, (client) => client.ping()), /NOAUTH/);
    });
  });
}
