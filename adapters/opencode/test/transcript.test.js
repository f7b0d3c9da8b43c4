/** What is recorded of opencode's messages, and what any plan leaves of them. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Plan } from "@contextrender/client";

import { Transcript } from "../src/transcript.js";
import { assistant, compacted, failed, file, numbers, random, text, tool, user } from "./items.js";

/** @typedef {{ message: number, calls: number[], text?: string | null, arguments?: string[] }} Shown */

test("a completed tool part is a call and its result", () => {
  const part = tool("read", { filePath: "a" }, "contents");
  const { messages } = new Transcript([user([text("look")]), assistant([text("I look."), part])]);
  assert.deepEqual(messages, [
    { role: "user", content: "look" },
    {
      role: "assistant",
      content: "I look.",
      tool_calls: [
        {
          id: part.id,
          type: "function",
          function: { name: "read", arguments: '{"filePath":"a"}' },
        },
      ],
    },
    { role: "tool", tool_call_id: part.id, content: "contents" },
  ]);
});

test("what no model sees is not recorded, and stays", () => {
  const items = [
    user([text("told", { ignored: true }), text("<system-reminder>plan", { synthetic: true })]),
    assistant([text("half")], failed("APIError")),
    assistant([{ ...text(""), type: "step-start" }], failed("MessageAbortedError")),
    assistant([]),
    user([file("text/plain")]),
  ];
  const transcript = new Transcript(items);
  assert.deepEqual(transcript.messages, []);
  assert.deepEqual(leftOf(transcript, []), items);
});

test("a stopped message with a text is recorded", () => {
  const items = [assistant([text("so far")], failed("MessageAbortedError"))];
  assert.equal(new Transcript(items).messages[0]?.content, "so far");
});

test("media are recorded by their digest, and stay where their text is replaced", () => {
  const image = file("image/png");
  const shot = tool("read", {}, "shown", { attachments: [image] });
  const items = [user([text("see"), image]), assistant([shot])];
  const transcript = new Transcript(items);
  const [asked, , result] = transcript.messages;
  assert.ok(Array.isArray(asked?.content) && Array.isArray(result?.content));
  assert.deepEqual(asked.content[0], { type: "text", text: "see" });
  assert.deepEqual(asked.content[1], result.content[1]);
  assert.ok(!JSON.stringify(transcript.messages).includes(image.url));
  const left = leftOf(transcript, [
    { message: 0, calls: [], text: "s" },
    { message: 1, calls: [0] },
    { message: 2, calls: [], text: "short" },
  ]);
  assert.equal(left[0]?.parts[1], image);
  const [part] = left[1]?.parts ?? [];
  assert.ok(part?.type === "tool" && part.state.status === "completed");
  assert.equal(part.state.output, "short");
  assert.deepEqual(part.state.attachments, [image]);
});

test("calls without a result of their own stay", () => {
  const pending = tool("bash", {}, "", { status: "pending" });
  const running = tool("bash", {}, "", { status: "running" });
  const remote = { ...tool("web_search", {}, "found"), metadata: { providerExecuted: true } };
  const done = tool("bash", {}, "done");
  const items = [assistant([text("all"), pending, done, running, remote])];
  const transcript = new Transcript(items);
  assert.equal(transcript.messages.length, 2);
  assert.deepEqual(leftOf(transcript, [])[0]?.parts, [pending, running, remote]);
});

test("an error's text, or what an interrupted tool wrote, is its result", () => {
  const error = tool("bash", {}, "", { status: "error", error: "no such file" });
  const written = { interrupted: true, output: "line 1" };
  const stopped = tool("bash", {}, "", { status: "error", error: "aborted", metadata: written });
  const transcript = new Transcript([assistant([error, stopped])]);
  assert.deepEqual(
    transcript.messages.slice(1).map((message) => message.content),
    ["no such file", "line 1"],
  );
  const [item] = leftOf(transcript, [
    { message: 0, calls: [0, 1] },
    { message: 1, calls: [], text: "e" },
    { message: 2, calls: [], text: "w" },
  ]);
  const [first, second] = item?.parts ?? [];
  assert.ok(first?.type === "tool" && first.state.status === "error");
  assert.equal(first.state.error, "e");
  assert.ok(second?.type === "tool" && second.state.status === "error");
  assert.equal(second.state.error, "aborted");
  assert.deepEqual(second.state.metadata, { interrupted: true, output: "w" });
});

test("reasoning stays while anything it led to does", () => {
  const thoughts = [1, 2].map((n) => ({ ...text(`thought ${n}`), type: "reasoning" }));
  const calls = [tool("a", {}, "1"), tool("b", {}, "2"), tool("c", {}, "3")];
  const parts = [thoughts[0], calls[0], thoughts[1], calls[1], calls[2]];
  const transcript = new Transcript([assistant(parts)]);
  const second = leftOf(transcript, [{ message: 0, calls: [1] }]);
  assert.deepEqual(second[0]?.parts, [thoughts[1], calls[1]]);
  const first = leftOf(transcript, [{ message: 0, calls: [0] }]);
  assert.deepEqual(first[0]?.parts, [thoughts[0], calls[0]]);
  assert.deepEqual(leftOf(transcript, [{ message: 0, calls: [] }]), []);
});

test("a compaction is the question that opencode asks in its place", () => {
  const [message] = new Transcript([user([compacted()])]).messages;
  assert.deepEqual(message, { role: "user", content: "What did we do so far?" });
});

test("a text in place of a message's own has no provider's name", () => {
  const said = text("long", { metadata: { openai: { itemId: "msg_1" } } });
  const call = tool("a", {}, "1");
  const transcript = new Transcript([assistant([said, text("and more"), call])]);
  const short = { message: 0, calls: [0], text: "short" };
  const [item] = leftOf(transcript, [short, { message: 1, calls: [] }]);
  const { id, sessionID } = said;
  const messageID = item?.info.id;
  assert.deepEqual(item?.parts, [{ id, sessionID, messageID, type: "text", text: "short" }, call]);
});

test("a text for a message without any stands before its calls", () => {
  const call = tool("a", {}, "1");
  const [item] = leftOf(new Transcript([assistant([call])]), [
    { message: 0, calls: [0], text: "a summary" },
    { message: 1, calls: [] },
  ]);
  assert.deepEqual(
    item?.parts.map((part) => (part.type === "text" ? part.text : part.type)),
    ["a summary", "tool"],
  );
});

test("lone surrogates become what UTF-8 can carry", () => {
  const [message] = new Transcript([user([text("\ud800!")])]).messages;
  assert.equal(message?.content, "\ufffd!");
});

test("whatever the plan, nothing is changed in place, added or left in halves", () => {
  let [fewer, changed] = [0, 0];
  for (const seed of numbers(400)) {
    const chance = random(seed);
    const items = history(chance);
    const before = structuredClone(items);
    const transcript = new Transcript(items);
    const plan = planFor(transcript.messages, chance);
    const left = leftOf(transcript, plan);
    assert.deepEqual(items, before);
    fewer += Number(left.length < items.length);
    changed += Number(left.some((item) => !items.includes(item)));
    const positions = left.map((item) => before.findIndex((old) => old.info.id === item.info.id));
    assert.deepEqual(positions, [...new Set(positions)].toSorted((a, b) => a - b));
    const known = new Map(items.flatMap((item) => item.parts.map((part) => [part.id, part])));
    for (const part of left.flatMap((item) => item.parts)) {
      const own = known.get(part.id);
      if (part.type === "text") continue;
      assert.ok(own && own.type === part.type);
      if (part.type !== "tool" || own.type !== "tool") assert.equal(part, own);
      else assert.deepEqual({ ...part, state: 0 }, { ...own, state: 0 });
    }
    const kept = new Set(left.flatMap((item) => item.parts));
    for (const part of known.values()) {
      if (part.type === "tool" && isOpen(part)) assert.ok(kept.has(part));
    }
  }
  assert.ok(fewer > 100 && changed > 100);
});

test("a plan that shows everything leaves the very same messages", () => {
  for (const seed of numbers(100)) {
    const items = history(random(seed));
    const transcript = new Transcript(items);
    const left = leftOf(
      transcript,
      transcript.messages.map((message, position) => ({
        message: position,
        calls: [...(message.tool_calls ?? []).keys()],
      })),
    );
    assert.equal(left.length, items.length);
    assert.ok(left.every((item, index) => item === items[index]));
  }
});

/** @param {Transcript} transcript @param {Shown[]} shown */
function leftOf(transcript, shown) {
  const whole = shown.map((item) => ({ text: null, arguments: null, ...item }));
  return transcript.apply(new Plan(transcript.messages, whole));
}

/** @param {import("../src/transcript.js").ToolPart} part */
function isOpen(part) {
  return ["pending", "running"].includes(part.state.status) || part.metadata?.providerExecuted;
}

/** @param {() => number} chance */
function history(chance) {
  /** @param {any[]} options */
  const pick = (options) => options[Math.floor(chance() * options.length)];
  const some = (/** @type {(() => any)[]} */ makers) =>
    numbers(Math.floor(chance() * 5)).map(() => pick(makers)());
  const said = () => text(pick(["", "a", "some words"]));
  const thought = () => ({ ...text("hm"), type: "reasoning" });
  const step = () => ({ ...text(""), type: pick(["step-start", "step-finish", "patch", "new"]) });
  const status = () => pick(["completed", "error", "pending", "running"]);
  const called = () => ({
    ...tool("look", { n: 1 }, "found", { status: status(), error: "failed" }),
    ...(chance() < 0.1 ? { metadata: { providerExecuted: true } } : {}),
  });
  const hint = () => text("<system-reminder>x", { synthetic: true });
  return numbers(Math.floor(chance() * 8)).map(() =>
    chance() < 0.3
      ? user(some([said, () => file("image/png"), compacted, hint, step]))
      : assistant(
          some([said, thought, step, called, called]),
          chance() < 0.1 ? failed("APIError") : {},
        ),
  );
}

/**
 * Any plan at all, consistent or not.
 *
 * @param {import("@contextrender/client").ChatMessage[]} messages
 * @param {() => number} chance
 * @returns {Shown[]}
 */
function planFor(messages, chance) {
  return messages.flatMap((message, position) => {
    if (chance() < 0.4) return [];
    const calls = [...(message.tool_calls ?? []).keys()].filter(() => chance() < 0.5);
    const text = [null, null, "", "short"][Math.floor(chance() * 4)];
    return [{ message: position, calls, text }];
  });
}

test("a shortened call has other arguments, and its result stays", () => {
  const part = tool("write", { filePath: "a", content: "x".repeat(99) }, "written");
  const transcript = new Transcript([user([text("write")]), assistant([part])]);
  const told = '{"filePath":"a","content":"x"}';
  const [, own] = leftOf(transcript, [
    { message: 0, calls: [] },
    { message: 1, calls: [0], arguments: [told] },
    { message: 2, calls: [] },
  ]);
  const state = { ...part.state, input: JSON.parse(told) };
  assert.deepEqual(own?.parts, [{ ...part, state }]);
});
