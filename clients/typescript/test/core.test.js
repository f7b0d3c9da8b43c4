/** The core without I/O: its requests, and its results from replies. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ContextRender, HistoryDiverged, InvalidRequest, Unreachable } from "@contextrender/client";

/** @typedef {import("@contextrender/client").Link} Link */
/** @typedef {{ status: number, body: unknown } | Error} Said */

const NOTHING_LEFT_OUT = { omitted: [], substitutes: [], dropped_turns: [], truncated_messages: [] };
const LOOK = { id: "a", type: "function", function: { name: "look", arguments: "{}" } };
const HISTORY = [
  { role: "user", content: "Look at SECRET." },
  { role: "assistant", content: null, tool_calls: [LOOK] },
  { role: "tool", tool_call_id: "a", content: "found it" },
  { role: "assistant", content: "There." },
];

test("only new messages are sent, or the full history if the service has another prefix", async () => {
  const { client, asked, answers } = scripted();
  answers.push(rendered(), rendered(), refused(409, "history_diverged"), rendered(), rendered());
  await client.render("s", HISTORY.slice(0, 2));
  await client.render("s", HISTORY.slice(0, 3));
  await client.render("s", HISTORY);
  await client.render("s", [{ role: "user", content: "Another past." }, ...HISTORY.slice(1)]);
  const places = asked.map(({ offset, prefix, messages }) => [offset, prefix, messages.length]);
  const sent = [[0, "", 2], [2, "d", 1], [3, "d", 1], [0, "", 4], [0, "", 4]];
  assert.deepEqual(places, sent);
});

test("omitted messages are removed, and kept messages are the caller's objects", async () => {
  const { client, answers } = scripted();
  const plan = [shown(0), shown(3)];
  answers.push(rendered({ omitted: [2], plan }));
  const { messages, changed } = await client.fit("s", HISTORY);
  assert.ok(changed);
  assert.deepEqual(messages, [HISTORY[0], HISTORY[3]]);
  assert.ok(messages[0] === HISTORY[0] && messages[1] === HISTORY[3]);
});

test("a substitute replaces a result's text, and other parts are kept", async () => {
  const { client, answers } = scripted();
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA" } };
  const result = { ...HISTORY[2], content: [{ type: "text", text: "long" }, image] };
  const plan = [shown(0), shown(1, [0]), shown(2, [], "short")];
  answers.push(rendered({ substitutes: [{}], plan }));
  const { messages } = await client.fit("s", [HISTORY[0], HISTORY[1], result]);
  assert.deepEqual(messages[2], { ...result, content: [{ type: "text", text: "short" }, image] });
});

test("an excerpt's line names recall only if it is available", async () => {
  const { client, answers } = scripted();
  const text = "[Excerpt: 9 of 10 tokens left out at […]; recall result 2 for all of it]\nfound";
  const back = "[Parts of result 2, which left; recall result 2 for all of it:]\nfound";
  const reply = (/** @type {string} */ told) =>
    rendered({ substitutes: [{ position: 2 }], plan: [shown(0), shown(1, [0]), shown(2, [], told)] });
  const line = (/** @type {any[]} */ messages) => messages[2].content;
  for (const told of [text, back]) {
    answers.push(reply(told), reply(told));
    const again = told.replace("recall result 2 for", "call its tool again for");
    assert.equal(line((await client.fit("s", HISTORY)).messages), again);
    assert.equal(line((await client.fit("s", HISTORY, { recalls: true })).messages), told);
  }
});

test("a call without a result is kept under any plan", async () => {
  const { client, answers } = scripted();
  const open = { role: "assistant", content: null, tool_calls: [LOOK, { ...LOOK, id: "b" }] };
  const asks = { role: "user", content: "And now?" };
  answers.push(rendered({ omitted: [2], plan: [shown(0), shown(3), shown(4)] }));
  const { messages } = await client.fit("s", [HISTORY[0], open, HISTORY[2], asks, HISTORY[3]]);
  assert.deepEqual(messages, [HISTORY[0], { ...open, tool_calls: [open.tool_calls[1]] }, asks, HISTORY[3]]);
});

test("a history above its budget because of messages that cannot be read is reported once", async () => {
  const { client, answers } = scripted();
  const unread = { role: "tool", content: "word ".repeat(900) };
  const reply = { tokens_before: 5, tokens_after: 5, budget: 300 };
  answers.push(rendered(reply), rendered({ ...reply, budget: 3000 }), rendered(reply));
  const fit = async () => (await client.fit("s", [HISTORY[0], unread, HISTORY[3]])).failure;
  assert.deepEqual([await fit(), await fit(), await fit()], ["unreadable_messages", "", "unreadable_messages"]);
  assert.deepEqual(client.failures, { unreadable_messages: 1 });
});

test("the newest answer is sent unchanged, apart from the text before it", async () => {
  const { client, answers } = scripted();
  const step = (/** @type {string} */ id) => [
    { role: "assistant", content: `Step ${id}.`, tool_calls: [{ ...LOOK, id }] },
    { role: "tool", tool_call_id: id, content: "found it" },
  ];
  const history = [HISTORY[0], ...step("a"), ...step("b")];
  answers.push(rendered({ omitted: [2, 4], plan: [shown(0), shown(1), shown(3)] }));
  const { messages } = await client.fit("s", history);
  const line = (/** @type {any} */ result) => ({ ...result, content: "[left out: it does not fit]" });
  assert.deepEqual(messages, [history[0], history[1], line(history[2]), history[3], line(history[4])]);
});

test("the first shown call of a step is signed", async () => {
  const { client, answers } = scripted();
  const signature = { extra_content: { google: { thought_signature: "SIG" } } };
  const calls = ["a", "b", "c"].map((id) => ({ ...LOOK, id }));
  const step = { role: "assistant", content: null, tool_calls: [{ ...calls[0], ...signature }, ...calls.slice(1)] };
  const results = calls.map(({ id }) => ({ ...HISTORY[2], tool_call_id: id }));
  answers.push(rendered({ omitted: [2], plan: [shown(0), shown(1, [1, 2]), shown(3), shown(4), shown(5)] }));
  const { messages } = await client.fit("s", [HISTORY[0], step, ...results, HISTORY[3]]);
  const [, sent] = /** @type {any[]} */ (messages);
  assert.deepEqual(sent.tool_calls, [{ ...calls[1], ...signature }, calls[2]]);
});

test("truncated arguments replace a call's arguments", async () => {
  const { client, asked, answers } = scripted();
  const plan = [shown(0), { ...shown(1, [0]), arguments: ['{"at":"cut"}'] }, shown(2), shown(3)];
  answers.push(rendered({ truncated_messages: [1], plan }));
  const { messages } = await client.fit("s", HISTORY);
  const short = { ...LOOK, function: { name: "look", arguments: '{"at":"cut"}' } };
  assert.deepEqual(messages[1], { ...HISTORY[1], tool_calls: [short] });
  assert.ok(messages[2] === HISTORY[2]);
  assert.equal(asked[0].agent_defaults, true);
});

test("results of bypass_tools are unchanged, with their calls", async () => {
  const { client, asked, answers } = scripted();
  const substitutes = [{ position: 2, kind: "excerpt" }];
  const plan = [shown(0), { ...shown(1, [0]), arguments: ['{"at":"cut"}'] }, shown(2, [], "exc"), shown(3)];
  answers.push(rendered({ substitutes, plan }), rendered({ omitted: [2], plan: [shown(0), shown(3)] }));
  answers.push(rendered({ omitted: [2], plan: [shown(0), shown(3)] }));
  const bypassed = { bypass_tools: ["l?o*"], pinned_tools: ["x"], pinned_calls: ["y"] };
  assert.deepEqual((await client.fit("s", HISTORY, bypassed)).messages, HISTORY);
  assert.deepEqual((await client.fit("s", HISTORY, bypassed)).messages, HISTORY);
  assert.equal((await client.fit("s", HISTORY, { bypass_tools: ["other"] })).messages.length, 2);
  assert.deepEqual([asked[0].pinned_tools, asked[0].pinned_calls, asked[0].bypass_tools], [["x"], ["y"], undefined]);
});

test("an invalid setting is refused at once", async () => {
  const { client, answers } = scripted();
  const error = { code: "invalid_request", message: "no such policy", setting: true };
  answers.push({ status: 400, body: { error } });
  await assert.rejects(client.fit("s", HISTORY, { policy: "nope" }), InvalidRequest);
});

test("media are recorded by their digest", async () => {
  const { client, asked, answers } = scripted();
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA" } };
  answers.push(rendered(), rendered());
  const moved = { ...image, cache_control: { type: "ephemeral" } };
  for (const part of [image, moved]) await client.fit(null, [{ role: "user", content: [part] }]);
  const [first, second] = asked;
  assert.deepEqual(first.messages[0].content[0].type, "image");
  assert.ok(!JSON.stringify(first).includes("base64"));
  // The service sees an equal history: the same name and no new message.
  assert.deepEqual([second.session, second.messages], [first.session, []]);
});

test("fit never fails, and the log has no contents", async () => {
  /** @type {[string, Said[]][]} */
  const failures = [
    ["unexpected_reply", [{ status: 200, body: [] }]],
    ["unexpected_reply", [{ status: 400, body: { error: { code: "SECRET words" } } }]],
    ["invalid_request", [refused(400, "invalid_request")]],
    ["history_diverged", [refused(409, "history_diverged")]],
    ["unreachable", Array(3).fill(new Unreachable("unreachable", 0, "SECRET"))],
    ["TypeError", [rendered({ omitted: [1], plan: [null] })]],
  ];
  for (const [reason, said] of failures) {
    const { client, answers, lines } = scripted();
    answers.push(...said);
    const { messages, changed, failure } = await client.fit("s", HISTORY);
    assert.ok(messages.every((message, index) => message === HISTORY[index]));
    assert.deepEqual([messages.length, changed, failure], [4, false, reason]);
    assert.deepEqual(lines, [`history sent unchanged (${reason}), 1 so far`]);
    assert.deepEqual(client.failures, { [reason]: 1 });
  }
});

test("without failOpen, fit rejects with the error", async () => {
  const { client, answers } = scripted();
  answers.push(refused(400, "invalid_request"));
  await assert.rejects(client.fit("s", HISTORY, { failOpen: false }), InvalidRequest);
  answers.push(refused(409, "history_diverged"));
  await assert.rejects(client.render("s", HISTORY), HistoryDiverged);
});

test("a call is retried if the service is busy, until the deadline", async () => {
  const { client, asked, waits, answers } = scripted();
  answers.push(refused(503, "busy"), refused(503, "busy"), rendered());
  await client.render("s", HISTORY);
  assert.deepEqual([asked.length, waits], [3, [50, 100]]);
  answers.push(refused(503, "busy"));
  const { failure } = await client.fit("s", HISTORY, { deadline: 40 });
  assert.deepEqual([asked.length, failure], [4, "busy"]);
});

test("a deletion is not retried", async () => {
  const { client, asked, answers } = scripted();
  answers.push(refused(503, "busy"));
  await assert.rejects(client.deleteSession("s"));
  assert.equal(asked.length, 1);
});

test("credentials are read again when they are refused", async () => {
  const { client, tokens, found, answers } = scripted();
  found.push("old", "new");
  answers.push(rendered(), refused(401, "unauthorized"), rendered());
  await client.render("s", HISTORY);
  await client.render("s", HISTORY);
  assert.deepEqual(tokens, ["old", "old", "new"]);
});

function scripted() {
  /** @type {Said[]} */
  const answers = [];
  /** @type {any[]} */
  const asked = [];
  /** @type {string[]} */
  const lines = [];
  /** @type {string[]} */
  const tokens = [];
  /** @type {string[]} */
  const found = [];
  /** @type {number[]} */
  const waits = [];
  let now = 0;
  /** @type {Link} */
  const link = {
    find: async () => ({ url: "http://127.0.0.1:1", token: found.shift() ?? "t" }),
    async wait(milliseconds) {
      waits.push(milliseconds);
      now += milliseconds;
    },
    async post({ body, token }) {
      asked.push(JSON.parse(body));
      tokens.push(token);
      const answer = answers.shift();
      if (!answer || answer instanceof Error) throw answer ?? new Error("nothing to answer");
      return { status: answer.status, body: JSON.stringify(answer.body) };
    },
  };
  const log = (/** @type {string} */ line) => void lines.push(line);
  const client = new ContextRender({ log, now: () => now }, link);
  return { client, asked, answers, lines, tokens, found, waits };
}

/** @param {object} reply @returns {Said} */
function rendered(reply = {}) {
  const whole = { ...NOTHING_LEFT_OUT, digest: "d", plan: [], ...reply };
  return { status: 200, body: { reports: [whole] } };
}

/** @param {number} status @param {string} code @returns {Said} */
function refused(status, code) {
  return { status, body: { error: { code, message: "SECRET" } } };
}

/** @param {number} message @param {number[]} calls @param {string | null} text */
function shown(message, calls = [], text = null) {
  return { message, calls, text };
}
