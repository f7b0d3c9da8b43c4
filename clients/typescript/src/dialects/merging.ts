/**
 * The model's messages that come to stand side by side where a result between them has left: some
 * providers refuse two in a row. Those that the agent itself sent side by side stay as they are.
 */

/** An item, and its place among the request's. */
export type Placed = readonly [place: number, item: unknown];

interface Message {
  role?: unknown;
  content?: unknown;
  tool_calls?: unknown[] | null;
  function_call?: unknown;
}

/** The items, those merged that `join` can; it gives null for two that stay apart. */
export function merged(
  items: readonly Placed[],
  join: (before: Message, after: Message) => Message | null,
): unknown[] {
  const left: unknown[] = [];
  let last = -1;
  for (const [place, item] of items) {
    const before = left.at(-1);
    const isNear = left.length > 0 && place > last + 1 && isModels(before) && isModels(item);
    const one = isNear ? join(before, item) : null;
    if (one) left[left.length - 1] = one;
    else left.push(item);
    last = place;
  }
  return left;
}

/** Two chat messages as one, whose calls are those of the latter. */
export function joinChat(before: Message, after: Message): Message | null {
  if (before.tool_calls?.length || before.function_call) return null;
  const both = [before.content, after.content];
  const content = both.some(Array.isArray)
    ? both.flatMap(partsOf)
    : both.filter(Boolean).join("\n\n") || null;
  return { ...before, ...after, content };
}

/** Two messages of content blocks as one. */
export function joinBlocks(before: Message, after: Message): Message {
  return { ...before, content: [before.content, after.content].flatMap(partsOf) };
}

function partsOf(content: unknown): unknown[] {
  if (Array.isArray(content)) return content;
  return content ? [{ type: "text", text: content }] : [];
}

function isModels(item: unknown): item is Message {
  return (item as Message | null)?.role === "assistant";
}
