/**
 * LangChain.js and LangGraph: a middleware that fits each model call's history into a budget.
 *
 *     createAgent({ model, tools, middleware: [createMiddleware(contextRender())] })
 *
 * The graph's own state has every message. The session is the thread's id, if it has one.
 */

import { callOf, resultOf, type ChatMessage, type Transcript } from "../chat.js";
import { plainContent, withText } from "../contents.js";
import type { Plan } from "../plan.js";
import { shownParts } from "../reasoning.js";
import { fitter, type AdapterOptions } from "./fitter.js";

interface Call {
  id?: string | undefined;
  name: string;
  args: unknown;
}

/** The fields of LangChain's messages that are read. */
interface Message {
  type: string;
  content: unknown;
  tool_calls?: readonly Call[];
  tool_call_id?: string;
  additional_kwargs?: object;
  response_metadata?: object;
}

interface Request<M> {
  messages: M[];
  systemMessage?: { content: unknown };
  runtime: { configurable?: { thread_id?: unknown } | undefined };
}

/** The field of LangChain's Gemini models that has the signatures of calls, by their ids. */
const SIGNATURES = "__gemini_function_call_thought_signatures__";
const REASONING = ["reasoning", "thinking", "redacted_thinking", "reasoning_content"];
const ROLES = new Map([
  ["human", "user"],
  ["ai", "assistant"],
  ["system", "system"],
]);

/** Returns the argument of `createMiddleware`. */
export function contextRender(options: AdapterOptions = {}) {
  const fit = fitter(options);
  return {
    name: "ContextRender",
    async wrapModelCall<M extends object, R extends Request<M>, A>(
      request: R,
      handler: (request: R) => A,
    ): Promise<Awaited<A>> {
      const thread = request.runtime.configurable?.thread_id;
      const session = thread === undefined ? undefined : String(thread);
      const read = (items: readonly M[]) => new MessageTranscript<M>(items);
      const messages = await fit(request.messages, read, { session });
      return await handler({ ...request, messages });
    },
  };
}

class MessageTranscript<M extends object> implements Transcript<M> {
  readonly messages: ChatMessage[] = [];
  readonly #items: readonly M[];
  readonly #places: (number | null)[];

  constructor(items: readonly M[]) {
    this.#items = items;
    this.#places = items.map((item) => {
      const message = recordedMessage(item as unknown as Message);
      return message && this.messages.push(message) - 1;
    });
  }

  apply(plan: Plan): M[] {
    return this.#items.flatMap((item, index) => {
      const place = this.#places[index] ?? null;
      if (place === null) return [item];
      const shown = shownMessage(item as unknown as Message, place, plan);
      return shown ? [shown as unknown as M] : [];
    });
  }
}

/** Returns the message to record; null if it cannot be read. */
function recordedMessage(message: Message): ChatMessage | null {
  const { type, content, tool_calls: calls = [], tool_call_id: id } = message;
  if (type === "tool") return id ? resultOf(id, content) : null;
  const role = ROLES.get(type);
  if (!role) return null;
  if (type !== "ai") return { role, content: plainContent(content) };
  const texts = typeof content === "string" ? content : textsOf(content);
  const recordedCalls = calls.map((call, index) => callOf(idOf(call, index), call.name, call.args));
  const callFields = recordedCalls.length ? { tool_calls: recordedCalls } : {};
  return { role, content: plainContent(texts) || null, ...callFields };
}

/** Returns the blocks of text. In some providers' messages calls and reasoning are blocks, too. */
function textsOf(content: unknown): unknown[] {
  if (!Array.isArray(content)) return [];
  return content.filter((block) => typeof block === "string" || block?.type === "text");
}

function idOf(call: Call, index: number): string {
  return call.id || `call-${index}`;
}

/** Returns the message with the parts that the plan shows; null if it shows none. */
function shownMessage(message: Message, place: number, plan: Plan): Message | null {
  const calls = (message.type === "ai" && message.tool_calls) || [];
  const { isShown, shownCalls, substituteArguments, text, isUnchanged } = plan.partsOf(place, calls.length);
  if (isUnchanged) return message;
  if (!isShown && !shownCalls.length) return null;
  const originalCalls = calls.filter((_, index) => shownCalls.includes(index));
  const sentCalls = originalCalls.map((call, index) => {
    const substitute = substituteArguments[index] ?? null;
    return substitute === null ? call : { ...call, args: JSON.parse(substitute) as Record<string, unknown> };
  });
  const omittedIds = new Set(calls.filter((call) => !originalCalls.includes(call)).map((call) => call.id));
  const showBlock = (block: unknown) =>
    omittedIds.has(blockId(block)) ? null : withArguments(block, originalCalls, sentCalls);
  const content = Array.isArray(message.content)
    ? shownParts<unknown>(message.content, text, isReasoning, showBlock)
    : withText(message.content, text ?? (message.content as string));
  if (message.type !== "ai") return copyWith(message, { content });
  // Some providers' messages have the original calls in `additional_kwargs`, too.
  const { tool_calls: _, ...others }: Record<string, unknown> = { tool_calls: null, ...message.additional_kwargs };
  if (SIGNATURES in others) others[SIGNATURES] = signaturesOf(others[SIGNATURES], calls, originalCalls);
  // Without `output`, which OpenAI's models send instead of the content and the calls.
  const { output: __, ...metadata }: Record<string, unknown> = { output: null, ...message.response_metadata };
  return copyWith(message, {
    content,
    tool_calls: sentCalls,
    additional_kwargs: others,
    ...(message.response_metadata ? { response_metadata: metadata } : {}),
  });
}

function isReasoning(block: unknown): boolean {
  return REASONING.includes((block as { type?: string } | null)?.type ?? "");
}

/**
 * Returns the signatures of the shown calls, by call id.
 *
 * Gemini signs only the first of parallel calls, and requires that signature. If the first shown call
 * has none, it gets the signature of an omitted call before it.
 */
function signaturesOf(signatures: unknown, calls: readonly Call[], shown: readonly Call[]): unknown {
  const entries = Object.entries((signatures ?? {}) as Record<string, unknown>);
  const shownIds = shown.map(({ id }) => id);
  const remaining = entries.filter(([id]) => shownIds.includes(id));
  const [firstId] = shownIds;
  const isSigned = remaining.some(([id]) => id === firstId);
  if (firstId === undefined || isSigned) return Object.fromEntries(remaining);
  const firstCall = calls.findIndex(({ id }) => id === firstId);
  const omittedIds = calls.slice(0, firstCall).map(({ id }) => id);
  const signature = entries.find(([id]) => omittedIds.includes(id))?.[1];
  return Object.fromEntries(signature === undefined ? remaining : [[firstId, signature], ...remaining]);
}

/** Returns the id of the call that a content block is, in Anthropic's and OpenAI's formats. */
function blockId(block: unknown): string | undefined {
  const { call_id: call, id } = (block ?? {}) as { call_id?: string; id?: string };
  return call ?? id;
}

/** Returns a content block. If it is a call whose arguments are cut, it has the cut arguments. */
function withArguments(block: unknown, originals: readonly Call[], sent: readonly Call[]): unknown {
  const index = originals.findIndex((call) => call.id && call.id === blockId(block));
  if (index < 0 || originals[index] === sent[index]) return block;
  const { args } = sent[index] as Call;
  const fields = block as Record<string, unknown>;
  return "arguments" in fields ? { ...fields, arguments: JSON.stringify(args) } : { ...fields, input: args };
}

/** Returns a copy of the same class with these fields. */
function copyWith(message: Message, fields: Partial<Message>): Message {
  return Object.assign(Object.create(Object.getPrototypeOf(message)), message, fields);
}
