/** Adapters: messages that the runtimes' tests do not cover. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { contextRenderMiddleware, contextRenderStep } from "@contextrender/client/ai";
import { contextRender } from "@contextrender/client/langchain";
import { ContextRenderProcessor } from "@contextrender/client/mastra";
import { contextRenderFilter } from "@contextrender/client/openai-agents";
import { ContextRender } from "@contextrender/client";

/** @typedef {import("@contextrender/client").PlannedMessage} PlannedMessage */

test("AI SDK: results of one message are omitted separately; approvals and media are kept", async () => {
  const call = (/** @type {string} */ id) => ({ type: "tool-call", toolCallId: id, toolName: "look", input: { id } });
  const signature = { providerOptions: { google: { thoughtSignature: "SIG" } } };
  const end = { role: "assistant", content: [{ type: "text", text: "Done." }] };
  const output = (/** @type {object} */ value) => ({ type: "json", value });
  const result = (/** @type {string} */ id) => ({ type: "tool-result", toolCallId: id, toolName: "look", output: output({ id }) });
  const reasoning = { type: "reasoning", text: "Hm." };
  const approval = { type: "tool-approval-request", approvalId: "1", toolCallId: "c" };
  const prompt = [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "Look." }, { type: "file", mediaType: "image/png", data: new Uint8Array(9) }] },
    { role: "assistant", content: [reasoning, { ...call("a"), ...signature }, call("b"), call("c"), approval] },
    { role: "tool", content: [result("a"), result("b"), result("c")] },
    end,
  ];
  const { client, asked } = planned([2, 3, 4], [
    { message: 0, calls: [], text: null, arguments: null },
    { message: 1, calls: [], text: null, arguments: null },
    { message: 2, calls: [1], text: "", arguments: null },
    { message: 4, calls: [], text: "short", arguments: null },
  ]);
  const { transformParams } = contextRenderMiddleware({ client });
  const providerOptions = { contextrender: { session: "mine" }, openai: { user: "x" } };
  const left = await transformParams({ params: { prompt, providerOptions }, model: { modelId: "m" } });
  assert.deepEqual([asked[0].session, asked[0].model], ["mine", "m"]);
  assert.deepEqual(left.providerOptions, { openai: { user: "x" } });
  assert.deepEqual(asked[0].messages.map((/** @type {any} */ { role }) => role), ["system", "user", "assistant", "tool", "tool", "assistant"]);
  assert.equal(asked[0].messages[3].content, '{"id":"a"}');
  assert.ok(left.prompt[1] === prompt[1]);
  assert.deepEqual(left.prompt[2]?.content, [reasoning, { ...call("b"), ...signature }, call("c"), approval]);
  const short = { ...result("b"), output: { type: "text", value: "short" } };
  assert.deepEqual(left.prompt[3]?.content, [short, result("c")]);
  assert.ok(left.prompt[4] === end);
});

test("AI SDK: a step starts from the full history, including steering", async () => {
  const { client, asked } = planned([], []);
  const prepareStep = contextRenderStep({ client, session: "s" });
  const message = (/** @type {string} */ content) => ({ role: "user", content });
  const [asks, more, steer, now] = ["asks", "more", "steer", "now"].map(message);
  const said = { role: "assistant", content: "said" };
  const step = {
    messages: [said],
    initialMessages: [asks],
    responseMessages: [more, said],
    steps: [{ response: { messages: [said] }, experimental_steeringMessages: [steer] }],
    experimental_steeringMessages: [now],
  };
  const { messages } = await prepareStep(/** @type {any} */ (step));
  assert.deepEqual(messages, [asks, more, steer, said, now]);
  assert.equal(asked[0].messages.length, 5);
});

test("LangChain: a copy has the message's class, without omitted calls", async () => {
  class AIMessage {
    type = "ai";
    content = [{ type: "tool_use", id: "a" }, { type: "tool_use", id: "b" }];
    tool_calls = [{ id: "a", name: "look", args: {} }, { id: "b", name: "look", args: {} }];
    additional_kwargs = { tool_calls: [1, 2], kept: true, __gemini_function_call_thought_signatures__: { a: "SIG" } };
  }
  const tool = (/** @type {string} */ id) => ({ type: "tool", tool_call_id: id, content: id });
  const messages = [{ type: "human", content: "Look." }, new AIMessage(), tool("a"), tool("b"), { type: "ai", content: "Done." }];
  const { client, asked } = planned([2], [
    { message: 0, calls: [], text: null, arguments: null },
    { message: 1, calls: [1], text: null, arguments: null },
    { message: 3, calls: [], text: null, arguments: null },
  ]);
  const { wrapModelCall } = contextRender({ client });
  const request = { messages, runtime: { configurable: { thread_id: 7 } } };
  const left = await wrapModelCall(request, (given) => given.messages);
  assert.equal(asked[0].session, "7");
  const [, own] = left;
  assert.ok(own instanceof AIMessage && own !== messages[1]);
  assert.deepEqual(own.tool_calls.map(({ id }) => id), ["b"]);
  assert.deepEqual(own.content, [{ type: "tool_use", id: "b" }]);
  assert.deepEqual(own.additional_kwargs, { kept: true, __gemini_function_call_thought_signatures__: { b: "SIG" } });
  assert.deepEqual(left.map((message) => message.type), ["human", "ai", "tool", "ai"]);
});

test("Mastra: a version that never passes a prompt counts as a failure", async () => {
  const { client } = planned([], []);
  /** @type {string[]} */
  const failures = [];
  client.addFailure = (reason) => void failures.push(reason);
  const processor = new ContextRenderProcessor({ client });
  processor.processInputStep({ stepNumber: 0 });
  assert.deepEqual(failures, []);
  processor.processInputStep({ stepNumber: 1 });
  assert.deepEqual(failures, ["needs Mastra 1.33 or newer"]);
  await processor.processLLMRequest({ prompt: [{ role: "user", content: [{ type: "text", text: "Look." }] }] });
  processor.processInputStep({ stepNumber: 2 });
  assert.equal(failures.length, 1);
});

test("OpenAI Agents: reasoning is omitted with its calls", async () => {
  const call = (/** @type {string} */ callId) => ({ type: "function_call", callId, name: "look", arguments: "{}" });
  const result = (/** @type {string} */ callId) => ({ type: "function_call_result", callId, name: "look", output: { type: "text", text: callId } });
  const reasoning = (/** @type {string} */ id) => ({ type: "reasoning", id, content: [] });
  const signature = { providerData: { thought_signature: "SIG" } };
  const end = { role: "assistant", content: [{ type: "output_text", text: "Done." }] };
  const input = [
    { role: "user", content: "Look." },
    reasoning("1"), call("a"), result("a"),
    reasoning("2"), { ...call("b"), ...signature }, call("c"), result("b"), result("c"), end,
  ];
  const { client, asked } = planned([2, 4], [
    { message: 0, calls: [], text: null, arguments: null },
    { message: 3, calls: [1], text: "", arguments: null },
    { message: 5, calls: [], text: "short", arguments: null },
  ]);
  const session = { getSessionId: async () => "mine" };
  const left = await contextRenderFilter({ client, session })({ modelData: { input } });
  assert.equal(asked[0].session, "mine");
  const short = { ...result("c"), output: { type: "text", text: "short" } };
  assert.deepEqual(left.input, [input[0], reasoning("2"), { ...call("c"), ...signature }, short, end]);
});

/** Reasoning 1 led to call a and text, reasoning 2 to call b, reasoning 3 to calls c and d. */
const ORDER = ["r1", "a", "text", "r2", "b", "r3", "c", "d"];
/** @type {[number[], string | null, string[]][]} */
const SHOWN = [
  [[0], null, ["r1", "a", "text"]],
  [[1], "", ["r2", "b"]],
  [[3], null, ["r1", "text", "r3", "d"]],
  [[], null, ["r1", "text"]],
  [[2, 3], "", ["r3", "c", "d"]],
];

test("reasoning is omitted with all that it led to", async () => {
  const calls = ["a", "b", "c", "d"].map((id) => ({ id, name: "look", args: {} }));
  /** @param {(part: string) => object} make */
  const parts = (make) => ORDER.map((part) => ({ part, ...make(part) }));
  const ai = parts((part) => {
    if (part === "text") return { type: "text", text: "said" };
    return part.length === 2 ? { type: "reasoning", text: part } : { type: "tool-call", toolCallId: part, toolName: "look", input: {} };
  });
  const blocks = parts((part) => {
    if (part === "text") return { type: "text", text: "said" };
    return part.length === 2 ? { type: "reasoning", id: part } : { type: "function_call", call_id: part, name: "look", arguments: "{}" };
  });
  for (const [shownCalls, text, expected] of SHOWN) {
    const rows = [
      { message: 0, calls: shownCalls, text, arguments: null },
      { message: 5, calls: [], text: null, arguments: null },
      ...shownCalls.map((call) => ({ message: 1 + call, calls: [], text: null, arguments: null })),
    ];
    const results = calls.map(({ id }) => ({ type: "tool-result", toolCallId: id, toolName: "look", output: { type: "text", value: id } }));
    const prompt = [{ role: "assistant", content: ai }, { role: "tool", content: results }, { role: "user", content: "on" }, { role: "assistant", content: "Done." }];
    const { transformParams } = contextRenderMiddleware({ client: planned([9], rows).client });
    const [own] = (await transformParams({ params: { prompt }, model: {} })).prompt;
    assert.deepEqual(/** @type {any[]} */ (own?.content).map(({ part }) => part), expected);

    const tools = calls.map(({ id }) => ({ type: "tool", tool_call_id: id, content: id }));
    const answer = { type: "ai", content: blocks, tool_calls: calls, response_metadata: { output: blocks, id: "resp_1" } };
    const request = { messages: [answer, ...tools, { type: "human", content: "on" }, { type: "ai", content: "Done." }], runtime: {} };
    const { client } = planned([9], rows);
    const [chain] = await contextRender({ client, session: "s" }).wrapModelCall(request, (given) => /** @type {any[]} */ (given.messages));
    assert.deepEqual(chain.content.map((/** @type {any} */ { part }) => part), expected);
    // The provider would send `output` instead of the content and the calls.
    assert.deepEqual(chain.response_metadata, { id: "resp_1" });
  }
});

test("AI SDK: OpenRouter's reasoning details stay with the first shown call", async () => {
  const detail = { type: "reasoning.encrypted", data: "SIG", id: "a" };
  const withDetails = (/** @type {object[]} */ details) => ({ providerOptions: { openrouter: { reasoning_details: details } } });
  const call = (/** @type {string} */ id) => ({ type: "tool-call", toolCallId: id, toolName: "look", input: {} });
  const result = (/** @type {string} */ id) => ({ type: "tool-result", toolCallId: id, toolName: "look", output: { type: "text", value: id } });
  const rows = [
    { message: 0, calls: [1], text: "", arguments: null },
    { message: 2, calls: [], text: null, arguments: null },
  ];
  // The provider reads the details of the message, otherwise those of its first call.
  const moved = withDetails([{ ...detail, id: "b" }]);
  for (const [ofMessage, ofCall, expected] of [
    [withDetails([detail]), {}, { role: "assistant", content: [call("b")], ...moved }],
    [{}, withDetails([detail]), { role: "assistant", content: [{ ...call("b"), ...moved }] }],
  ]) {
    const prompt = [
      { role: "assistant", content: [{ ...call("a"), ...ofCall }, call("b")], ...ofMessage },
      { role: "tool", content: [result("a"), result("b")] },
      { role: "assistant", content: "Done." },
    ];
    const { transformParams } = contextRenderMiddleware({ client: planned([1], rows).client });
    const [answer] = (await transformParams({ params: { prompt }, model: {} })).prompt;
    assert.deepEqual(answer, expected);
  }
});

test("a truncated call has arguments in each runtime's format", async () => {
  const cut = [{ message: 0, calls: [0], text: null, arguments: ['{"at":"cut"}'] }];
  const results = [{ message: 1, calls: [], text: null, arguments: null }];
  const plan = [...cut, ...results];
  const ai = planned([9], plan);
  const part = { type: "tool-call", toolCallId: "a", toolName: "look", input: { at: "whole" } };
  const output = { type: "text", value: "seen" };
  const prompt = [
    { role: "assistant", content: [part] },
    { role: "tool", content: [{ type: "tool-result", toolCallId: "a", toolName: "look", output }] },
    { role: "assistant", content: [{ type: "text", text: "Done." }] },
  ];
  const { transformParams } = contextRenderMiddleware({ client: ai.client, pinned_tools: ["look"] });
  const params = { prompt, providerOptions: {} };
  const left = await transformParams({ params, model: { modelId: "m" } });
  assert.deepEqual(left.prompt[0]?.content, [{ ...part, input: { at: "cut" } }]);
  assert.deepEqual(ai.asked.at(-1)?.pinned_tools, ["look"]);

  const chain = planned([9], plan);
  const calls = [{ id: "a", name: "look", args: { at: "whole" } }];
  const blocks = [{ type: "tool_use", id: "a", input: { at: "whole" } }];
  const messages = [{ type: "ai", content: blocks, tool_calls: calls }, { type: "tool", tool_call_id: "a", content: "seen" }, { type: "ai", content: "Done." }];
  const request = { messages, runtime: { configurable: { thread_id: 7 } } };
  const [own] = await contextRender({ client: chain.client }).wrapModelCall(request, (given) => given.messages);
  assert.deepEqual(own?.tool_calls, [{ ...calls[0], args: { at: "cut" } }]);
  assert.deepEqual(own?.content, [{ ...blocks[0], input: { at: "cut" } }]);

  const agents = planned([9], plan);
  const call = { type: "function_call", callId: "a", name: "look", arguments: '{"at":"whole"}' };
  const result = { type: "function_call_result", callId: "a", name: "look", output: { type: "text", text: "seen" } };
  const end = { role: "assistant", content: [{ type: "output_text", text: "Done." }] };
  const filter = contextRenderFilter({ client: agents.client, session: "s" });
  const { input } = await filter({ modelData: { input: [call, result, end] } });
  assert.deepEqual(input, [{ ...call, arguments: '{"at":"cut"}' }, result, end]);
});

/** A client of a service that answers every call with one plan. @param {number[]} omitted @param {PlannedMessage[]} plan */
function planned(omitted, plan) {
  /** @type {any[]} */
  const asked = [];
  const reply = { omitted, substitutes: [], dropped_turns: [], truncated_messages: [], digest: "d", plan };
  /** @type {import("@contextrender/client").Link} */
  const link = {
    find: async () => ({ url: "http://127.0.0.1:1", token: "t" }),
    wait: async () => assert.fail("it waits for nothing"),
    async post({ body }) {
      asked.push(JSON.parse(body));
      return { status: 200, body: JSON.stringify({ reports: [reply] }) };
    },
  };
  const log = (/** @type {string} */ line) => assert.fail(line);
  return { client: new ContextRender({ log }, link), asked };
}
