"use strict";
// ioredis as a client of Redis Cluster, through the redirecting face: checks and counters, one command after the other. Run and told what to
// do, and answering, as second_client.py is; of its targets it takes the first ones to learn of the others.

const { Cluster } = require("ioredis-5");
const readline = require("node:readline");

const KEYS = 20;
const COUNTERS = 6;
const [limit, windowMs, burst, rate, beganUs] = process.argv.slice(2).map(Number);
const seen = { checks: [], throttles: [], faults: [], latencies: [], others: 0, lost: [], doubled: [], unknown: 0 };
const emptied = new Set();
// What each counter must be; none if that is not known.
const counts = new Map();
let cluster;
let isOver = false;

const nowUs = () => Number(process.hrtime.bigint() / 1000n) - beganUs;

async function check(number, sentUs) {
  const key = number % KEYS;
  const cost = emptied.has(key) ? 1 : burst;
  emptied.add(key);
  const args = ["LIMIT", limit, "PER", `${windowMs}ms`, "BURST", burst, "COST", cost];
  try {
    const reply = await cluster.call("RL.CHECK", `io:check:${key}`, ...args);
    seen.checks.push([key, sentUs, nowUs(), cost, reply[0] === 1, reply[5]]);
  } catch (error) {
    seen.unknown += cost;
    throw error;
  }
}

async function throttle(number, sentUs) {
  const key = number % KEYS;
  const reply = await cluster.call("CL.THROTTLE", `io:throttle:${key}`, burst - 1, limit, windowMs / 1000, 1);
  seen.throttles.push([key, sentUs, nowUs(), 1, reply[0] === 0, "owner"]);
}

async function count(number) {
  const key = `io:count:${number % COUNTERS}`;
  const expected = counts.has(key) ? counts.get(key) : 0;
  counts.set(key, undefined);
  const found = await cluster.incr(key);
  if (expected !== undefined && found !== expected + 1) {
    (found <= expected ? seen.lost : seen.doubled).push([nowUs(), Math.abs(found - expected - 1)]);
  }
  counts.set(key, found);
}

async function step(number) {
  const kind = [check, throttle, count][number % 3];
  const isCheck = kind !== count;
  const sentUs = nowUs();
  try {
    await kind(Math.floor(number / 3), sentUs);
  } catch (error) {
    seen.faults.push([nowUs(), "cluster", isCheck, String(error.message)]);
    return;
  }
  if (isCheck) {
    seen.latencies.push(["cluster", sentUs, nowUs() - sentUs]);
  } else {
    seen.others += 1;
  }
}

async function main() {
  let due = Date.now();
  for (let number = 0; !isOver; number += 1) {
    due = Math.max(due + 1000 / rate, Date.now());
    await step(number);
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - Date.now())));
  }
  cluster.disconnect();
  process.stdout.write(JSON.stringify(seen));
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  if (line.trim() === "") {
    isOver = true;
    process.stdin.destroy();
  } else if (cluster === undefined) {
    const targets = JSON.parse(line).targets.map(([, port]) => ({ host: "127.0.0.1", port }));
    cluster = new Cluster(targets, { slotsRefreshInterval: 500 });
    // What a command meets, its caller is told.
    cluster.on("error", () => {});
    main();
  }
});
