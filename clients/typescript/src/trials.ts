/**
 * One model call of each adapter, on a history of the first-run check's: what it would send.
 *
 * The call goes through the adapter's own hook, in messages as the runtime has them (LangChain's are
 * of its own classes); no model is asked. `python -m contextrender_bridge.adapters.check` runs it.
 */

import { contextRenderMiddleware } from "./adapters/ai.js";
import type { PromptMessage } from "./adapters/ai_prompt.js";
import type { AdapterOptions } from "./adapters/fitter.js";
import { contextRender } from "./adapters/langchain.js";
import { ContextRenderProcessor } from "./adapters/mastra.js";
import { contextRenderFilter } from "./adapters/openai_agents.js";
import { ContextRender } from "./client.js";

/** A chat message of the check's: a user's text, one call, or its result. */
interface Told {
  role: string;
  content: string | null;
  tool_calls?: readonly [{ id: string; function: { name: string; arguments: string } }];
  tool_call_id?: string;
}

/** The session, the budget, and the deadline in milliseconds. */
export interface TrialSettings {
  session: string;
  budget: number;
  deadline: number;
}

type Options = TrialSettings & { client: ContextRender };
type Trial = (history: readonly Told[], options: Options) => Promise<readonly object[]>;

/** What an adapter's runtime would be sent, and why a history went whole, by reason. */
export async function tryAdapter(name: string, history: readonly Told[], settings: TrialSettings) {
  const trial = TRIALS[name];
  if (!trial) throw new Error(`there is no trial of ${name}`);
  const client = new ContextRender({ retries: 0 });
  const sent = await trial(history, { ...settings, client });
  return { sent, failures: client.failures };
}

const TRIALS: Record<string, Trial> = {
  async ai_sdk(history, options) {
    const { transformParams } = contextRenderMiddleware(options);
    return (await transformParams({ params: { prompt: history.map(promptMessage) } })).prompt;
  },
  async mastra(history, options) {
    const processor = new ContextRenderProcessor(options);
    return (await processor.processLLMRequest({ prompt: history.map(promptMessage) })).prompt;
  },
  async langchain_js(history, options) {
    const own = "@langchain/core/messages";
    const { HumanMessage, AIMessage, ToolMessage } = await import(own);
    const messages: object[] = history.map(({ role, content, tool_calls: calls, tool_call_id: id }) => {
      if (role === "tool") return new ToolMessage({ content, tool_call_id: id });
      if (!calls) return new HumanMessage(content);
      const [{ id: called, function: body }] = calls;
      const call = { id: called, name: body.name, args: JSON.parse(body.arguments) };
      return new AIMessage({ content: "", tool_calls: [call] });
    });
    const request = { messages, runtime: { configurable: undefined } };
    return await contextRender(options).wrapModelCall(request, (given) => given.messages);
  },
  async openai_agents_js(history, options) {
    const input: object[] = history.map(({ role, content, tool_calls: calls, tool_call_id: callId }) => {
      const output = { type: "text", text: content };
      if (role === "tool") return { type: "function_call_result", callId, name: "look", output };
      if (!calls) return { role, content };
      return { type: "function_call", callId: calls[0].id, ...calls[0].function };
    });
    return (await contextRenderFilter(options)({ modelData: { input } })).input;
  },
  async opencode(history, { session, budget, deadline }) {
    const own = "contextrender-opencode";
    const { server } = (await import(own)).default;
    const plugin = await server({ client: { app: { log } } }, { budget, deadline: deadline / 1000 });
    const output = { messages: itemsOf(history, session) };
    await plugin["experimental.chat.messages.transform"]({}, output);
    return output.messages;
  },
};

function promptMessage({ role, content, tool_calls: calls, tool_call_id: id }: Told): PromptMessage {
  const called = { toolCallId: calls?.[0].id ?? id, toolName: "look" };
  if (role === "tool") {
    const output = { type: "text", value: content };
    return { role, content: [{ type: "tool-result", ...called, output }] };
  }
  if (!calls) return { role, content: [{ type: "text", text: content }] };
  const input = JSON.parse(calls[0].function.arguments);
  return { role, content: [{ type: "tool-call", ...called, input }] };
}

/** opencode's messages: a call and its result are one part. */
function itemsOf(history: readonly Told[], sessionID: string): object[] {
  const results = new Map(history.map((message) => [message.tool_call_id, message.content]));
  const told = history.filter(({ role }) => role !== "tool");
  return told.map(({ role, content, tool_calls: calls }, index) => {
    const own = { id: `prt_${index}`, messageID: `msg_${index}`, sessionID };
    const info = { id: own.messageID, sessionID, role, time: { created: index, completed: index } };
    if (!calls) return { info, parts: [{ ...own, type: "text", text: content }] };
    const [{ id: callID, function: body }] = calls;
    const done = { title: "", metadata: {}, time: { start: index, end: index } };
    const input = JSON.parse(body.arguments);
    const state = { status: "completed", input, output: results.get(callID), ...done };
    return { info, parts: [{ ...own, type: "tool", callID, tool: body.name, state }] };
  });
}

async function log({ body }: { body: { message: string } }): Promise<void> {
  console.error(body.message);
}
