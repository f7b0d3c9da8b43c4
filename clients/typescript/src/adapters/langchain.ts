/**
 * LangChain.js and LangGraph: a middleware that fits each model call's history into a budget.
 *
 *     createAgent({ model, tools, middleware: [createMiddleware(contextRender())] })
 *
 * The graph's own state keeps every message. The session is the thread's id, if it has one.
 */

import { callOf, resultOf, type ChatMessage, type Transcript } from "../chat.js";
import { plainContent, withText } from "../contents.js";
import type { Plan } from "../plan.js";
import { fitter, type AdapterOptions } from "./fitter.js";

interface Call {
  id?: string | undefined;
  name: string;
  args: unknown;
}

/** What is read of LangChain's messages. */
interface Message {
  type: string;
  content: unknown;
  tool_calls?: readonly Call[];
  tool_call_id?: string;
  additional_kwargs?: object;
}

interface Request<M> {
  messages: M[];
  systemMessage?: { content: unknown };
  runtime: { configurable?: { thread_id?: unknown } | undefined };
}

const ROLES = new Map([
  ["human", "user"],
  ["ai", "assistant"],
  ["system", "system"],
]);

/** What `createMiddleware` takes. */
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
      const message = recorded(item as unknown as Message);
      return message && this.messages.push(message) - 1;
    });
  }

  apply(plan: Plan): M[] {
    return this.#items.flatMap((item, index) => {
      const place = this.#places[index] ?? null;
      if (place === null) return [item];
      const left = leftOf(item as unknown as Message, place, plan);
      return left ? [left as unknown as M] : [];
    });
  }
}

function recorded(message: Message): ChatMessage | null {
  const { type, content, tool_calls: calls = [], tool_call_id: id } = message;
  if (type === "tool") return id ? resultOf(id, content) : null;
  const role = ROLES.get(type);
  if (!role) return null;
  if (type !== "ai") return { role, content: plainContent(content) };
  const texts = typeof content === "string" ? content : textsOf(content);
  const called = calls.map((call, index) => callOf(idOf(call, index), call.name, call.args));
  const found = called.length ? { tool_calls: called } : {};
  return { role, content: plainContent(texts) || null, ...found };
}

/** Blocks of text; calls and reasoning are blocks too, in some providers' messages. */
function textsOf(content: unknown): unknown[] {
  if (!Array.isArray(content)) return [];
  return content.filter((block) => typeof block === "string" || block?.type === "text");
}

function idOf(call: Call, index: number): string {
  return call.id || `call-${index}`;
}

function leftOf(message: Message, place: number, plan: Plan): Message | null {
  const calls = (message.type === "ai" && message.tool_calls) || [];
  const { isShown, staying, told, text, isWhole } = plan.of(place, calls.length);
  if (isWhole) return message;
  if (!isShown && !staying.length) return null;
  const kept = calls.filter((_, index) => staying.includes(index));
  const gone = new Set(calls.filter((call) => !kept.includes(call)).map((call) => call.id));
  const stays = (block: unknown) => !gone.has(blockId(block));
  const shown = kept.map((call, at) => {
    const cut = told[at] ?? null;
    return cut === null ? call : { ...call, args: JSON.parse(cut) as Record<string, unknown> };
  });
  const own = Array.isArray(message.content)
    ? message.content.filter(stays).map((block) => withArguments(block, kept, shown))
    : message.content;
  const content = text === null ? own : withText(own, text);
  if (message.type !== "ai") return copied(message, { content });
  // Some providers' messages repeat the calls there, as they came.
  const { tool_calls: _, ...others } = { tool_calls: null, ...message.additional_kwargs };
  return copied(message, { content, tool_calls: shown, additional_kwargs: others });
}

/** The call that a content block is, as Anthropic and Responses write them. */
function blockId(block: unknown): string | undefined {
  const { call_id: call, id } = (block ?? {}) as { call_id?: string; id?: string };
  return call ?? id;
}

/** A block that is a call, with the call's arguments as they are shown. */
function withArguments(block: unknown, kept: readonly Call[], shown: readonly Call[]): unknown {
  const at = kept.findIndex((call) => call.id && call.id === blockId(block));
  if (at < 0 || kept[at] === shown[at]) return block;
  const { args } = shown[at] as Call;
  const own = block as Record<string, unknown>;
  return "arguments" in own ? { ...own, arguments: JSON.stringify(args) } : { ...own, input: args };
}

/** A copy of the same class, but for these fields. */
function copied(message: Message, fields: Partial<Message>): Message {
  return Object.assign(Object.create(Object.getPrototypeOf(message)), message, fields);
}
