// The server under test, as tests/run.py announces it in SERVER_* variables, and the transcript of what a library said.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');

const { env } = process;
const host = env.SERVER_HOST;
const port = Number(env.SERVER_PORT);

const RECOVERY_LIMIT_MS = 10_000;

/** Writes an observation down: the value must be the same on every server, so times are ranged with `between`. */
function observe(t, what, value) {
  const name = t.fullName ?? t.name;
  fs.appendFileSync(env.TRANSCRIPT, `${name}: ${what} = ${JSON.stringify(value === undefined ? 'undefined' : value)}\n`);
}

/** Writes it down and asserts that it is as expected. */
function expectEqual(t, what, value, expected) {
  observe(t, what, value);
  assert.deepEqual(value, expected, what);
}

/** Asserts that a figure is in its range, and is the range. */
function between(value, low, high) {
  assert.equal(typeof value, 'number', `${value}`);
  assert.ok(low <= value && value <= high, `${value} is not between ${low} and ${high}`);
  return `${low}..${high}`;
}

/** Kills the server with SIGKILL; resolves once it serves again on the same port, with nothing in it. */
async function restartServer() {
  const reply = await fetch(`${env.SERVER_CONTROL}/restart`, { method: 'POST' });
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

async function inTurn(count, call) {
  const results = [];
  for (let n = 0; n < count; n += 1) results.push(await call(n));
  return results;
}

module.exports = { between, eventually, expectEqual, host, inTurn, observe, port, restartServer, sleep };
