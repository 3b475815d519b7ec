// The node under test, as tests/run.py announces it in TOLLGATE_* variables, and what replies must look like.
'use strict';

const assert = require('node:assert/strict');
const { setTimeout: sleep } = require('node:timers/promises');

const { env } = process;
const host = env.TOLLGATE_HOST;
const port = Number(env.TOLLGATE_PORT);
const passwordPort = Number(env.TOLLGATE_PASSWORD_PORT);
const password = env.TOLLGATE_PASSWORD;

const FIELDS = ['allowed', 'limit', 'remaining', 'retry_after_ms', 'reset_at_ms', 'source'];
const RECOVERY_LIMIT_MS = 10_000;

let serial = 0;
function newKey(label) {
  serial += 1;
  return `node:${label}:${process.pid}:${serial}`;
}

/** The fields by name, from the form that a reply has: `array` of values, `flat` names and values, or `object`. */
function fieldsOf(reply, form) {
  if (form === 'object') {
    assert.ok(!Array.isArray(reply));
    assert.deepEqual(Object.keys(reply), FIELDS);
    return { ...reply };
  }
  assert.ok(Array.isArray(reply));
  if (form === 'flat') {
    assert.deepEqual(reply.filter((_, index) => index % 2 === 0), FIELDS);
    return Object.fromEntries(FIELDS.map((name, index) => [name, reply[2 * index + 1]]));
  }
  assert.equal(reply.length, FIELDS.length);
  return Object.fromEntries(FIELDS.map((name, index) => [name, reply[index]]));
}

function assertFiveOfSevenAllowed(replies) {
  const now = Date.now();
  assert.deepEqual(replies.map((reply) => reply.allowed), [1, 1, 1, 1, 1, 0, 0]);
  assert.deepEqual(replies.map((reply) => reply.remaining), [4, 3, 2, 1, 0, 0, 0]);
  for (const reply of replies) {
    assert.equal(reply.limit, 5);
    assert.equal(reply.source, 'owner');
    assert.ok(Number.isInteger(reply.reset_at_ms));
    assert.ok(now < reply.reset_at_ms && reply.reset_at_ms < now + 61_000, `reset_at_ms ${reply.reset_at_ms}`);
    if (reply.allowed) {
      assert.equal(reply.retry_after_ms, 0);
    } else {
      assert.ok(reply.retry_after_ms > 0 && reply.retry_after_ms <= 12_000, `retry_after_ms ${reply.retry_after_ms}`);
    }
  }
}

function assertThrottledAfterFive(replies) {
  assert.deepEqual(replies.map((reply) => reply[0]), [0, 0, 0, 0, 0, 1, 1]);
  assert.deepEqual(replies.map((reply) => reply[1]), Array(7).fill(5));
  assert.deepEqual(replies.map((reply) => reply[2]), [4, 3, 2, 1, 0, 0, 0]);
  assert.deepEqual(replies.slice(0, 5).map((reply) => reply[3]), Array(5).fill(-1));
  for (const reply of replies.slice(5)) assert.ok(reply[3] >= 11 && reply[3] <= 12, `retry after ${reply[3]}`);
  for (const reply of replies) assert.ok(reply[4] > 0 && reply[4] <= 60, `reset after ${reply[4]}`);
}

function assertCountsDownFrom999(replies) {
  assert.deepEqual(replies.map((reply) => reply.remaining), Array.from({ length: 1000 }, (_, index) => 999 - index));
}

/** Kills the node with SIGKILL; resolves once it serves again on the same port. */
async function restartNode() {
  const reply = await fetch(`${env.TOLLGATE_CONTROL}/restart`, { method: 'POST' });
  assert.equal(reply.status, 200, await reply.text());
}

/** Calls until a call succeeds, as a service does whose requests go on arriving. */
async function eventually(call) {
  const deadline = Date.now() + RECOVERY_LIMIT_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await sleep(20);
    }
  }
}

module.exports = {
  assertCountsDownFrom999,
  assertFiveOfSevenAllowed,
  assertThrottledAfterFive,
  eventually,
  fieldsOf,
  host,
  newKey,
  password,
  passwordPort,
  port,
  restartNode,
};
