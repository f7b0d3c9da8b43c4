/** The hook itself: against a double of the service, and the real one where it is named. */

import assert from "node:assert/strict";
import { mkdtemp } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import plugin from "../src/plugin.js";
import { assistant, numbers, text, tool, user } from "./items.js";

/** @typedef {import("../src/transcript.js").Item} Item */

const HOOK = "experimental.chat.messages.transform";
const { CONTEXTRENDER_URL: REAL, CONTEXTRENDER_TOKEN: TOKEN } = process.env;
const NOTHING_LEFT_OUT = { omitted: [], replaced: [], left_turns: [], shortened: [] };

/** @type {any[]} What the double was asked. */
let asked = [];
/** @type {(body: any, response: import("node:http").ServerResponse) => void} */
let answer;
let url = "";
const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  asked.push({ path: request.url, token: request.headers.authorization, ...JSON.parse(body) });
  answer(asked.at(-1), response);
});

beforeEach(async () => {
  for (const name of Object.keys(process.env)) {
    if (/^CONTEXTRENDER_|_proxy$/i.test(name)) delete process.env[name];
  }
  process.env.CONTEXTRENDER_DATA = await mkdtemp(join(tmpdir(), "contextrender-"));
  asked = [];
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
});

afterEach(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});

test("what is left out is spliced out of the array that opencode keeps", async () => {
  const { hooks, lines } = await loaded();
  answer = replies({ omitted: [2], plan: [{ message: 0, calls: [] }, { message: 3, calls: [] }] });
  const items = history();
  const [first, , last] = items;
  await hooks[HOOK]({}, { messages: items });
  assert.deepEqual(items, [first, last]);
  assert.equal(items[0], first);
  assert.deepEqual(lines, []);
  const { path, token, session, want, model } = asked[0];
  assert.deepEqual(
    { path, token, session, want, model },
    {
      path: "/walker/render",
      token: "Bearer t",
      session: "ses_test",
      want: "plan",
      model: "gpt-4o",
    },
  );
});

test("settings come from the options, else the environment", async () => {
  process.env.CONTEXTRENDER_BUDGET = "700";
  process.env.CONTEXTRENDER_POLICY = "recency";
  answer = replies();
  const parameters = { recency_decay: 1 };
  await shown(await loaded({ parameters }));
  await shown(await loaded({ budget: 600, policy: "full" }));
  assert.deepEqual(
    asked.map(({ budget, policy, parameters }) => [budget, policy, parameters]),
    [
      [700, "recency", parameters],
      [600, "full", undefined],
    ],
  );
});

test("tools whose results stay come from the options, else the environment", async () => {
  process.env.CONTEXTRENDER_KEEP_TOOLS = "skill, todo*,";
  process.env.CONTEXTRENDER_BYPASS_TOOLS = "webfetch";
  answer = replies();
  await shown(await loaded());
  const { hooks, lines } = await loaded({ keep_tools: ["x"], keep: ["prt_1"], bypass_tools: "r?ad" });
  answer = replies({ omitted: [2], plan: [{ message: 0, calls: [] }, { message: 3, calls: [] }] });
  const items = history();
  const before = [...items];
  await hooks[HOOK]({}, { messages: items });
  assert.deepEqual(items, before);
  assert.deepEqual(
    asked.map(({ keep_tools, keep, bypass_tools }) => [keep_tools, keep, bypass_tools]),
    [
      [["skill", "todo*"], undefined, undefined],
      [["x"], ["prt_1"], undefined],
    ],
  );
  assert.deepEqual(lines, []);
});

test("names that are no list are told, and leave the messages as they are", async () => {
  const { hooks, lines } = await loaded({ bypass_tools: /** @type {any} */ (7) });
  answer = replies({ omitted: [2], plan: [{ message: 0, calls: [] }] });
  const items = history();
  await hooks[HOOK]({}, { messages: items });
  assert.deepEqual([items.length, lines.length], [3, 1]);
});

test("only what is new is sent, and all of it when the service disagrees", async () => {
  const { hooks, lines } = await loaded();
  answer = replies();
  const items = history();
  await hooks[HOOK]({}, { messages: items });
  items.push(user([text("more")]));
  await hooks[HOOK]({}, { messages: items });
  assert.deepEqual([asked[1].offset, asked[1].prefix, asked[1].messages.length], [4, "d", 1]);
  answer = (body, response) => {
    if (!body.offset) return replies()(body, response);
    response.writeHead(409).end('{"error": {"code": "history_diverged"}}');
  };
  items.push(assistant([text("and more")]));
  await hooks[HOOK]({}, { messages: items });
  const places = asked.slice(2).map(({ offset, prefix }) => [offset, prefix]);
  assert.deepEqual(places, [
    [5, "d"],
    [0, ""],
  ]);
  items.splice(0, 1, user([text("another past")]));
  await hooks[HOOK]({}, { messages: items });
  assert.equal(asked.at(-1).offset, 0);
  assert.deepEqual(lines, []);
});

test("what opencode is about to summarize is left whole, once", async () => {
  const { hooks } = await loaded();
  answer = replies({ omitted: [2], plan: [{ message: 0, calls: [] }] });
  await hooks["experimental.session.compacting"]({ sessionID: "ses_test" });
  const items = history();
  await hooks[HOOK]({}, { messages: items });
  assert.deepEqual([asked.length, items.length], [0, 3]);
  await hooks[HOOK]({}, { messages: items });
  assert.deepEqual([asked.length, items.length], [1, 1]);
});

/** @type {[string, typeof answer][]} */
const FAILURES = [
  ["unexpected_reply", (_, response) => response.writeHead(400).end(refusal("SECRET words"))],
  ["history_diverged", (_, response) => response.writeHead(409).end(refusal("history_diverged"))],
  ["unreachable", (_, response) => response.destroy()],
  ["TypeError", replies({ omitted: [1], plan: [null] })],
  ["late", () => {}],
];
for (const [number, [reason, broken]] of FAILURES.entries()) {
  test(`failure ${number} leaves the messages as they are: ${reason}`, async () => {
    const { hooks, lines } = await loaded({ deadline: 0.3001 });
    answer = broken;
    const items = history();
    const before = [...items];
    const copies = structuredClone(items);
    const start = performance.now();
    await hooks[HOOK]({}, { messages: items });
    assert.ok(performance.now() - start < 1500);
    assert.ok(items.length === before.length && items.every((item, i) => item === before[i]));
    assert.deepEqual(items, copies);
    await hooks[HOOK]({}, { messages: items });
    assert.deepEqual(lines, [
      `history sent unchanged (${reason}), 1 so far`,
      `history sent unchanged (${reason}), 2 so far`,
    ]);
  });
}

test("nothing makes it throw", async () => {
  for (const log of [() => Promise.reject(new Error("no log")), undefined]) {
    const client = /** @type {any} */ (log && { app: { log } });
    const hooks = await plugin.server({ client }, { url: "http://127.0.0.1:9", token: "t" });
    for (const messages of [history(), [], [null], undefined, [{ info: {}, parts: null }]]) {
      await hooks[HOOK]({}, /** @type {any} */ ({ messages }));
    }
  }
});

test("a real service leaves results out, and none of it fails", { skip: !REAL }, async () => {
  const staying = { keep_tools: ["gr*"], bypass_tools: ["webfetch"] };
  const { hooks, lines } = await loaded({ url: REAL, token: TOKEN, budget: 600, ...staying });
  const pinned = tool("grep", { pattern: "x" }, "In the first line. ".repeat(9));
  const passed = tool("webfetch", { url: "http://x" }, "All of the page. ".repeat(900));
  const session = `ses_${process.pid}_${Date.now()}`;
  const stored = [
    user([text("Look at the files.")], session),
    assistant([pinned], {}, session),
    assistant([passed], {}, session),
  ];
  const seen = [];
  for (const step of numbers(30)) {
    const found = `file_${step}_x says: ${"all is well here; ".repeat(step % 9 === 4 ? 900 : 30)}`;
    const path = { filePath: `/tmp/file_${step}_x`, after: `file_${step % 7}_x` };
    const status = step % 8 ? "completed" : "error";
    const call = tool("read", path, found, { status, error: found });
    const open = step % 10 === 3 ? [tool("bash", {}, "", { status: "running" })] : [];
    stored.push(assistant([text(`I look at file_${step}_x.`), call, ...open], {}, session));
    if (step % 6 === 5) stored.push(user([text(`And after file_${step - 4}_x?`)], session));
    const before = structuredClone(stored);
    const items = [...stored];
    await hooks[HOOK]({}, { messages: items });
    assert.deepEqual(stored, before);
    assert.ok(items.includes(/** @type {Item} */ (stored.findLast((i) => i.info.role === "user"))));
    const tools = items.flatMap((item) => item.parts.filter((part) => part.type === "tool"));
    for (const part of stored.flatMap((item) => item.parts)) {
      const isOpen = part.type === "tool" && part.state.status === "running";
      if (isOpen) assert.ok(tools.some((other) => other.id === part.id));
    }
    for (const part of [pinned, passed]) assert.ok(tools.includes(part));
    seen.push(JSON.stringify(items).length / JSON.stringify(stored).length);
  }
  assert.deepEqual(lines, []);
  assert.ok(Math.min(...seen) < 0.3, String(seen));
});

/** @param {import("../src/plugin.js").Options} options */
async function loaded(options = {}) {
  /** @type {string[]} */
  const lines = [];
  const log = async (/** @type {any} */ { body }) => void lines.push(body.message);
  const input = { client: { app: { log } } };
  return { hooks: await plugin.server(input, { url, token: "t", ...options }), lines };
}

/** @param {Awaited<ReturnType<typeof loaded>>} plugged */
async function shown({ hooks }) {
  await hooks[HOOK]({}, { messages: history() });
}

function history() {
  return [
    user([text("SECRET words")]),
    assistant([tool("read", { filePath: "a" }, "SECRET contents")]),
    assistant([text("Done.")]),
  ];
}

/** @param {object} [reply] @returns {typeof answer} */
function replies(reply = {}) {
  const whole = { ...NOTHING_LEFT_OUT, digest: "d", plan: [], ...reply };
  return (_, response) => void response.end(JSON.stringify({ reports: [whole] }));
}

/** @param {string} code */
function refusal(code) {
  return JSON.stringify({ error: { code, message: "SECRET" } });
}
