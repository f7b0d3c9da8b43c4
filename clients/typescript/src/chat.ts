/** OpenAI chat messages: reading them in the form that is recorded, and applying a plan to them. */

import { answeredId, generatedId, isPairedByOrder, isResult } from "./call_pairing.js";
import { historyEnd, plainContent, withText, type Content } from "./contents.js";
import type { Plan } from "./plan.js";
import { moveReasoning, signFirst } from "./signatures.js";

/** A tool call in the form that the service records. */
export type ChatCall =
  | { id: string; type: "function"; function: { name: string; arguments: string } }
  | { id: string; type: "custom"; custom: { name: string; input: string } };

/** A message in the form that the service records. */
export interface ChatMessage {
  role: string;
  content: Content;
  name?: string;
  tool_calls?: ChatCall[];
  tool_call_id?: string;
}

/**
 * A runtime's history.
 *
 * - `messages`: its chat messages as the service records them.
 * - `apply`: returns the items that a plan shows. An item of which nothing is omitted is the
 *   runtime's own object.
 * - `alternates`: false if the provider accepts two messages of the model in a row.
 * - `unreadItems`: the messages that cannot be read, and are therefore always sent.
 */
export interface Transcript<T> {
  readonly messages: ChatMessage[];
  readonly alternates?: boolean;
  readonly unreadItems?: readonly unknown[];
  apply(plan: Plan): T[];
}

/** A caller's message. Its other fields are not read, and stay. */
export interface AnyMessage {
  role: string;
  content?: unknown;
}

/** The fields of a caller's message that are read. */
interface Readable extends AnyMessage {
  name?: unknown;
  tool_calls?: unknown[] | null;
  /** The one call of a message of older chat completions. */
  function_call?: unknown;
  tool_call_id?: unknown;
  tool_name?: unknown;
  reasoning_details?: unknown;
}

const ROLES = ["system", "developer", "user", "assistant", "tool"];

/** The transcript of chat messages: each readable item is one canonical message. */
export class ChatTranscript<T extends AnyMessage> implements Transcript<T> {
  readonly messages: ChatMessage[] = [];
  readonly #items: readonly T[];
  /** The number of items before OpenClaw's own context, which it appends to each request. */
  readonly #end: number;
  /** The position of each item's canonical message; null for an item that cannot be read. */
  readonly #places: (number | null)[];

  constructor(items: readonly T[]) {
    this.#items = items;
    this.#end = historyEnd(items);
    this.#places = items.map((item, index) => {
      const message = index < this.#end ? this.#canonical(item, index) : null;
      return message && this.messages.push(message) - 1;
    });
  }

  /** Returns the message to record, with ids for calls and results that have none; null if unreadable. */
  #canonical(message: Readable, index: number): ChatMessage | null {
    // Some gateways number the calls.
    const hasNumber = typeof message?.tool_call_id === "number";
    const item = hasNumber ? { ...message, tool_call_id: String(message.tool_call_id) } : message;
    if (!isResult(item) || !isPairedByOrder(this.messages, item)) return canonical(item, this.messages.length);
    const id = answeredId(this.messages, item, this.#items.slice(index + 1, this.#end));
    return id ? canonical({ ...item, role: "tool", tool_call_id: id }, 0) : null;
  }

  get unreadItems(): T[] {
    return this.#items.slice(0, this.#end).filter((_, index) => this.#places[index] === null);
  }

  apply(plan: Plan): T[] {
    const shownItems = this.#items.flatMap((item, index): NumberedItem[] => {
      const place = this.#places[index] ?? null;
      if (place === null) return [[index, item]];
      const shown = shownItem(item, place, plan);
      return shown === null ? [] : [[index, shown]];
    });
    const newest = newestAnswer(this.messages);
    const isUnmergeable = (index: number) => this.#places[index] === null || this.#places[index] === newest;
    return mergeNeighbours(shownItems, isUnmergeable) as T[];
  }
}

/** An item after its number among the caller's items. */
type NumberedItem = readonly [number: number, item: unknown];

/**
 * Returns the items, and merges messages of the model that have become neighbours.
 *
 * Two messages become neighbours when a result between them is omitted, and some providers refuse
 * two messages of the model in a row. Messages that the agent sent side by side are not merged, nor
 * are unmergeable items.
 */
function mergeNeighbours(
  items: readonly NumberedItem[],
  isUnmergeable: (number: number) => boolean,
): unknown[] {
  const merged: unknown[] = [];
  let lastNumber = -1;
  for (const [number, item] of items) {
    const previous = merged.at(-1);
    const becameNeighbours =
      merged.length > 0 && number > lastNumber + 1 && isOfModel(previous) && isOfModel(item);
    const isMergeable = becameNeighbours && !isUnmergeable(number) && !isUnmergeable(lastNumber);
    if (isMergeable && !callsOf(previous).length) {
      // The first message's other fields, such as its reasoning, belong to an omitted step.
      merged[merged.length - 1] = { ...item, content: joinContents(previous.content, item.content) };
    } else merged.push(item);
    lastNumber = number;
  }
  return merged;
}

/** Returns the position of the model's newest message, or -1. */
export function newestAnswer(messages: readonly ChatMessage[]): number {
  return messages.findLastIndex(({ role }) => role === "assistant");
}

/** Returns the arguments of a call as a text. */
export function callText(call: ChatCall | undefined): string {
  if (!call) return "";
  return call.type === "custom" ? call.custom.input : call.function.arguments;
}

function isOfModel(item: unknown): item is Readable & Record<string, unknown> {
  return (item as Readable | null)?.role === "assistant";
}

function joinContents(...contents: unknown[]): unknown {
  if (!contents.some(Array.isArray)) return contents.filter(Boolean).join("\n\n") || null;
  return contents.flatMap((content) => {
    if (Array.isArray(content)) return content as unknown[];
    return content ? [{ type: "text", text: content }] : [];
  });
}

/** Returns a call as the service records it. Arguments that are no text become JSON. */
export function callOf(id: string, name: string, input: unknown): ChatCall {
  const text = typeof input === "string" ? input : JSON.stringify(input ?? {});
  const body = { name: name.toWellFormed(), arguments: text.toWellFormed() };
  return { id: id.toWellFormed(), type: "function", function: body };
}

/** Returns a result as the service records it. */
export function resultOf(id: string, content: unknown): ChatMessage {
  return { role: "tool", tool_call_id: id.toWellFormed(), content: plainContent(content) };
}

/** Returns the item with the parts that the plan shows; null if it shows none. */
function shownItem<T extends AnyMessage>(item: T & Readable, place: number, plan: Plan): T | null {
  const calls = callsOf(item);
  const { isShown, shownCalls, substituteArguments, text, isUnchanged } = plan.partsOf(place, calls.length);
  if (isUnchanged) return item;
  if (!isShown && !shownCalls.length) return null;
  const shown: Readable = { ...item };
  const remaining = shownCalls.map((call, index) => withArguments(calls[call], substituteArguments[index]));
  const [firstCall, ...otherCalls] = remaining;
  if (!remaining.length) {
    delete shown.tool_calls;
    delete shown.function_call;
  } else if (item.tool_calls?.length) {
    const omittedBefore = calls.slice(0, shownCalls[0]);
    shown.tool_calls = [signFirst(firstCall, omittedBefore), ...otherCalls];
  } else shown.function_call = (firstCall as { function: unknown }).function;
  if (shownCalls.length < calls.length && "reasoning_details" in shown) {
    const ids = calls.map((call) => (call as { id?: unknown } | null)?.id);
    const omittedIds = ids.filter((_, number) => !shownCalls.includes(number));
    const firstId = ids[shownCalls[0] ?? -1];
    shown.reasoning_details = moveReasoning(shown.reasoning_details, omittedIds, firstId);
  }
  if (text !== null) {
    const content = withText(item.content, text) as string | unknown[];
    shown.content = content.length || !shownCalls.length ? content : null;
  }
  return shown as T;
}

/**
 * Returns the call with substitute arguments, if there are any.
 *
 * If the call's own arguments are an object instead of a JSON text, the substitute becomes one, too.
 */
function withArguments(call: unknown, substitute: string | null | undefined): unknown {
  if (substitute === null || substitute === undefined) return call;
  const { type, function: body, custom } = call as Record<string, object>;
  if ((type as unknown) === "custom") return { ...(call as object), custom: { ...custom, input: substitute } };
  const isObject = typeof (body as { arguments?: unknown }).arguments === "object";
  const value: unknown = isObject ? JSON.parse(substitute) : substitute;
  return { ...(call as object), function: { ...body, arguments: value } };
}

/** Returns the calls of a message of the model. Older chat completions have one, in `function_call`. */
function callsOf(item: Readable): unknown[] {
  if (item.role !== "assistant") return [];
  const { tool_calls: calls, function_call: body } = item;
  if (calls?.length) return calls;
  return body && typeof body === "object" ? [{ type: "function", function: body }] : [];
}

/** Returns the message to record at `position`; null if the item is no chat message. */
function canonical(item: Readable, position: number): ChatMessage | null {
  const { role, content = null, name, tool_call_id: id } = item ?? {};
  const isContent = content === null || typeof content === "string" || Array.isArray(content);
  if (!ROLES.includes(role) || !isContent) return null;
  if (role === "tool") return typeof id === "string" && id ? resultOf(id, content) : null;
  const message: ChatMessage = { role, content: plainContent(content) };
  if (typeof name === "string") message.name = name.toWellFormed();
  const calls = callsOf(item).map((call, number) => canonicalCall(call, generatedId(position, number)));
  if (calls.some((call) => !call)) return null;
  if (calls.length) message.tool_calls = calls as ChatCall[];
  return message;
}

/** Returns a call as the service records it; null if it is no call. `defaultId` replaces a missing id. */
function canonicalCall(call: unknown, defaultId: string): ChatCall | null {
  const { id: givenId, type, function: functionBody, custom } = (call ?? {}) as Record<string, any>;
  const id = typeof givenId === "number" ? String(givenId) : givenId;
  const { name, arguments: json, input } = (type === "custom" ? custom : functionBody) ?? {};
  const isValidId = id === undefined || id === null || typeof id === "string";
  if (!isValidId || typeof name !== "string") return null;
  if (type !== "custom") return callOf(id || defaultId, name, json ?? "");
  const body = { name: name.toWellFormed(), input: String(input ?? "").toWellFormed() };
  return { id: (id || defaultId).toWellFormed(), type, custom: body };
}
