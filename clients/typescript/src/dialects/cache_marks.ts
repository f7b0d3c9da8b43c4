/**
 * Breakpoints of a prompt cache in a Messages request, where the service says they are worth one.
 *
 * A provider takes four in a request, the agent's own included. An agent marks the end of its
 * prompt; when its beginning changes, what is behind the last breakpoint that still stands is
 * written anew. Requests without any mark stay without.
 */

type Json = Record<string, unknown>;
interface Mark {
  ttl?: unknown;
}

const MOST = 4;
const MARKABLE = ["text", "image", "document", "tool_use", "tool_result"];

/** A block that stays: its item, its number there, and its recorded message. */
export interface Shown {
  item: number;
  number: number;
  message: number;
  block: unknown;
}

/**
 * The items, by number, that get marks: on the last block up to each of `breakpoints`, the first
 * ones, as many as are free. Each lives as long as the agent's next one, as the API wants the
 * long-lived first.
 */
export function marked(
  request: Json,
  items: readonly unknown[],
  blocks: readonly Shown[],
  breakpoints: readonly number[],
): Map<number, unknown> {
  const found = new Map<number, unknown>();
  const own = items.flatMap(marksOf);
  const outer = [...marksOf(request["tools"]), ...marksOf(request["system"])];
  const last = marksOf({ cache_control: request["cache_control"] });
  const free = MOST - own.length - outer.length - last.length;
  if (free === MOST) return found;
  for (const { item: place, number } of placesOf(blocks, breakpoints).slice(0, Math.max(free, 0))) {
    const behind = items.slice(place).flatMap(marksOf);
    const like = [...behind, ...last, ...outer.toReversed()][0] ?? own.at(-1);
    found.set(place, withMark((found.get(place) ?? items[place]) as Json, number, like as Mark));
  }
  return found;
}

/** The last block up to each breakpoint; those that the agent marked are not. */
function placesOf(blocks: readonly Shown[], breakpoints: readonly number[]): Shown[] {
  const places = breakpoints.flatMap((position) => {
    const last = blocks.findLast(({ message, block }) => message <= position && canBeMarked(block));
    return last && !marksOf(last.block).length ? [last] : [];
  });
  return [...new Set(places)];
}

function canBeMarked(block: unknown): boolean {
  const { type, text } = block as Json;
  return MARKABLE.includes(type as string) && (type !== "text" || String(text).trim() !== "");
}

function withMark(item: Json, number: number, like: Mark): Json {
  const mark = { type: "ephemeral", ...("ttl" in like ? { ttl: like.ttl } : {}) };
  const { content } = item;
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : [...(content as object[])];
  blocks[number] = { ...blocks[number], cache_control: mark } as Json;
  return { ...item, content: blocks };
}

/** The marks in tools, a system prompt, a message or a block, in order. */
function marksOf(part: unknown): Mark[] {
  if (Array.isArray(part)) return part.flatMap(marksOf);
  if (!part || typeof part !== "object") return [];
  const { content, cache_control: mark } = part as Json;
  return [...marksOf(content), ...(mark && typeof mark === "object" ? [mark] : [])];
}
