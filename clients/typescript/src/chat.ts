/** OpenAI chat messages: what is recorded of them, and what a plan leaves of the originals. */

import { historyEnd, plainContent, withText, type Content } from "./contents.js";
import type { Plan } from "./plan.js";

/** A call as it is recorded. */
export type ChatCall =
  | { id: string; type: "function"; function: { name: string; arguments: string } }
  | { id: string; type: "custom"; custom: { name: string; input: string } };

/** A message as it is recorded. */
export interface ChatMessage {
  role: string;
  content: Content;
  name?: string;
  tool_calls?: ChatCall[];
  tool_call_id?: string;
}

/**
 * A runtime's history, read as chat messages: `messages` are those, and `apply` gives the history
 * with only what a plan of them shows, its items the runtime's own where nothing of them is gone.
 */
export interface Transcript<T> {
  readonly messages: ChatMessage[];
  apply(plan: Plan): T[];
}

/** A message as callers have it; what else it holds stays with it. */
export interface AnyMessage {
  role: string;
  content?: unknown;
}

/** What is read of a caller's message. */
interface Readable extends AnyMessage {
  name?: unknown;
  tool_calls?: unknown[] | null;
  tool_call_id?: unknown;
}

const ROLES = ["system", "developer", "user", "assistant", "tool"];

/** Canonical messages are the original ones, one for one, but for those not understood. */
export class ChatTranscript<T extends AnyMessage> implements Transcript<T> {
  readonly messages: ChatMessage[] = [];
  readonly #items: readonly T[];
  /** The canonical message that each item is, if it is one. */
  readonly #places: (number | null)[];

  constructor(items: readonly T[]) {
    this.#items = items;
    const end = historyEnd(items);
    this.#places = items.map((item, index) => {
      const message = index < end ? canonical(item) : null;
      return message && this.messages.push(message) - 1;
    });
  }

  apply(plan: Plan): T[] {
    const kept = this.#items.flatMap((item, index): Placed[] => {
      const place = this.#places[index] ?? null;
      const left = place === null ? item : leftOf(item, place, plan);
      return left === null && place !== null ? [] : [[index, left]];
    });
    return merged(kept) as T[];
  }
}

/** An item, and its place among the caller's. */
type Placed = readonly [place: number, item: unknown];

/**
 * The items; two of the model's that come to stand side by side, where a result between them has
 * left, become one: some providers refuse two in a row. Those that the agent sent so stay.
 */
function merged(items: readonly Placed[]): unknown[] {
  const left: unknown[] = [];
  let last = -1;
  for (const [place, item] of items) {
    const before = left.at(-1);
    const isNear = left.length > 0 && place > last + 1 && isModels(before) && isModels(item);
    if (isNear && !callsOf(before).length && !before["function_call"]) {
      left[left.length - 1] = { ...before, ...item, content: joined(before.content, item.content) };
    } else left.push(item);
    last = place;
  }
  return left;
}

function isModels(item: unknown): item is Readable & Record<string, unknown> {
  return (item as Readable | null)?.role === "assistant";
}

function joined(...contents: unknown[]): unknown {
  if (!contents.some(Array.isArray)) return contents.filter(Boolean).join("\n\n") || null;
  return contents.flatMap((content) => {
    if (Array.isArray(content)) return content as unknown[];
    return content ? [{ type: "text", text: content }] : [];
  });
}

/** A call as it is recorded: its arguments as JSON text, unless they are a text. */
export function callOf(id: string, name: string, given: unknown): ChatCall {
  const text = typeof given === "string" ? given : JSON.stringify(given ?? {});
  const body = { name: name.toWellFormed(), arguments: text.toWellFormed() };
  return { id: id.toWellFormed(), type: "function", function: body };
}

/** A result as it is recorded. */
export function resultOf(id: string, content: unknown): ChatMessage {
  return { role: "tool", tool_call_id: id.toWellFormed(), content: plainContent(content) };
}

function leftOf<T extends AnyMessage>(item: T, place: number, plan: Plan): T | null {
  const calls = callsOf(item);
  const { isShown, staying, told, text, isWhole } = plan.of(place, calls.length);
  if (isWhole) return item;
  if (!isShown && !staying.length) return null;
  const left: Readable = { ...item };
  if (staying.length) left.tool_calls = staying.map((call, at) => withArguments(calls[call], told[at]));
  else if (calls.length) delete left.tool_calls;
  if (text !== null) {
    const content = withText(item.content, text) as string | unknown[];
    left.content = content.length || !staying.length ? content : null;
  }
  return left as T;
}

/** The call, with these arguments if there are any. */
function withArguments(call: unknown, told: string | null | undefined): unknown {
  if (told === null || told === undefined) return call;
  const { type, function: given, custom } = call as Record<string, object>;
  if ((type as unknown) === "custom") return { ...(call as object), custom: { ...custom, input: told } };
  return { ...(call as object), function: { ...given, arguments: told } };
}

function callsOf(item: Readable): unknown[] {
  return (item.role === "assistant" && item.tool_calls) || [];
}

function canonical(item: Readable): ChatMessage | null {
  const { role, content = null, name, tool_call_id: id } = item ?? {};
  const isContent = content === null || typeof content === "string" || Array.isArray(content);
  if (!ROLES.includes(role) || !isContent) return null;
  if (role === "tool") return typeof id === "string" && id ? resultOf(id, content) : null;
  const message: ChatMessage = { role, content: plainContent(content) };
  if (typeof name === "string") message.name = name.toWellFormed();
  const calls = callsOf(item).map(canonicalCall);
  if (calls.some((call) => !call)) return null;
  if (calls.length) message.tool_calls = calls as ChatCall[];
  return message;
}

function canonicalCall(call: unknown): ChatCall | null {
  const { id, type, function: given, custom } = (call ?? {}) as Record<string, any>;
  const { name, arguments: told, input } = (type === "custom" ? custom : given) ?? {};
  if (typeof id !== "string" || !id || typeof name !== "string") return null;
  if (type !== "custom") return callOf(id, name, told ?? "");
  const body = { name: name.toWellFormed(), input: String(input ?? "").toWellFormed() };
  return { id: id.toWellFormed(), type, custom: body };
}
