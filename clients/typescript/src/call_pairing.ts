/**
 * Pairing of tool calls and results that have no ids, by their order, as the Python client does it.
 *
 * Such a result answers the first call without a result in the latest step with calls. If the result
 * names its tool, the call must be of that tool.
 */

import type { ChatMessage } from "./chat.js";

const PREFIX = "call-";
const GENERATED = /^call-\d+-\d+$/;

/** The fields of a caller's result that are read. */
interface Result {
  role?: unknown;
  name?: unknown;
  tool_name?: unknown;
  tool_call_id?: unknown;
}

/** Returns an id for the call with this number in a recorded message. */
export function generatedId(message: number, call: number): string {
  return `${PREFIX}${message}-${call}`;
}

/** Returns whether an item has a result: `function` is the role of results of older releases. */
export function isResult(item: Result | null): boolean {
  return item?.role === "tool" || item?.role === "function";
}

/** Returns whether a result has no call id, or the calls before it have no ids. */
export function isPairedByOrder(messages: readonly ChatMessage[], result: Result): boolean {
  if (typeof result.tool_call_id !== "string" || !result.tool_call_id) return true;
  const last = messages.findLast(({ role, tool_calls: calls }) => calls?.length || role !== "tool");
  return Boolean(last?.tool_calls?.some(({ id }) => id.startsWith(PREFIX)));
}

/**
 * Returns the id of the call that a result after `messages` answers; null if it answers no call.
 *
 * `later` has the items after it. A result with an id answers the open call with this id. The id also
 * counts if all open calls came with ids of their own. Otherwise the result answers the first open call
 * that has a generated id (any id if the result has none), that is of its tool, and that no later
 * result of the step names.
 */
export function answeredId(
  messages: readonly ChatMessage[],
  result: Result,
  later: readonly unknown[],
): string | null {
  const ownId = typeof result.tool_call_id === "string" ? result.tool_call_id : "";
  const calls = openCalls(messages);
  if (ownId && (calls.some(([id]) => id === ownId) || !calls.some(([id]) => GENERATED.test(id)))) return ownId;
  const tool = result.tool_name || result.name;
  const laterIds = idsOfStep(later);
  const call = calls.find(([id, name]) => {
    const isOfTool = typeof tool !== "string" || !tool || name === tool;
    return isOfTool && (!ownId || GENERATED.test(id)) && !laterIds.includes(id);
  });
  return call?.[0] ?? (ownId || null);
}

/** Returns the ids and tools of the calls of the latest step that have no result yet. */
function openCalls(messages: readonly ChatMessage[]): [id: string, tool: string][] {
  const answered: string[] = [];
  for (const { role, tool_calls: calls, tool_call_id: id } of messages.toReversed()) {
    if (role === "tool") answered.push(id ?? "");
    else if (calls?.length) {
      return calls.flatMap((call): [string, string][] => {
        const place = answered.indexOf(call.id);
        if (place >= 0) answered.splice(place, 1);
        const { name } = call.type === "custom" ? call.custom : call.function;
        return place >= 0 ? [] : [[call.id, name]];
      });
    } else if (role === "assistant") return [];
  }
  return [];
}

/** Returns the call ids of the results in `items` before the model's next message. */
function idsOfStep(items: readonly unknown[]): unknown[] {
  const isEnd = (item: unknown) => typeof item !== "object" || !item || (item as Result).role === "assistant";
  const end = items.findIndex(isEnd);
  const step = items.slice(0, end < 0 ? items.length : end) as Result[];
  return step.map((item) => item.tool_call_id).filter(Boolean);
}
