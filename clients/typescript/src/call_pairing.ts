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
 * `laterItems` are the items after the result. Returns the result's own id if an open call has this
 * id, or if no open call has a generated id. Otherwise returns the id of the first open call that
 * meets all of these conditions:
 *
 * - It is of the result's tool, if the result names its tool.
 * - Its id is generated, if the result has an id.
 * - No later result of the step has its id.
 *
 * If there is no such call, returns the result's own id.
 */
export function answeredId(
  messages: readonly ChatMessage[],
  result: Result,
  laterItems: readonly unknown[],
): string | null {
  const ownId = typeof result.tool_call_id === "string" ? result.tool_call_id : "";
  const calls = openCalls(messages);
  const isOpen = calls.some(([id]) => id === ownId);
  const hasGeneratedIds = calls.some(([id]) => GENERATED.test(id));
  if (ownId && (isOpen || !hasGeneratedIds)) return ownId;
  const tool = result.tool_name || result.name;
  const namesTool = typeof tool === "string" && tool !== "";
  const laterIds = idsOfStep(laterItems);
  const call = calls.find(([id, callTool]) => {
    const isOfTool = !namesTool || callTool === tool;
    const mayHaveId = !ownId || GENERATED.test(id);
    return isOfTool && mayHaveId && !laterIds.includes(id);
  });
  return call?.[0] ?? (ownId || null);
}

/** Returns the id and the tool of each call that has no result yet, in the last calling message. */
function openCalls(messages: readonly ChatMessage[]): [id: string, tool: string][] {
  const answeredIds: string[] = [];
  for (const { role, tool_calls: calls, tool_call_id: id } of messages.toReversed()) {
    if (role === "tool") answeredIds.push(id ?? "");
    else if (calls?.length) {
      return calls.flatMap((call): [string, string][] => {
        const index = answeredIds.indexOf(call.id);
        const isAnswered = index >= 0;
        if (isAnswered) answeredIds.splice(index, 1);
        const { name } = call.type === "custom" ? call.custom : call.function;
        return isAnswered ? [] : [[call.id, name]];
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
