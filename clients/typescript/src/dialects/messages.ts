/** Anthropic Messages: `system`, and `messages` of content blocks with `tool_use`/`tool_result`. */

import { callOf, resultOf, type ChatCall, type ChatMessage, type Transcript } from "./chat.js";
import { historyEnd, holdsText, isMedia, plainContent, textOf, withPart, withText } from "../contents.js";
import type { Plan } from "../plan.js";
import { marked, type Shown } from "./cache_marks.js";
import { joinBlocks, merged, type Placed } from "./merging.js";

type Json = Record<string, unknown>;
type Kind = "call" | "result" | "served" | "thinking" | "text" | "media" | "other";

/** What a block is of the recorded history: its message, and the call it is, if any. */
interface Place {
  kind: Kind;
  message: number;
  call: number;
}

const CALLS = ["tool_use", "server_tool_use", "mcp_tool_use"];
const POINTERS = ["web_search_result_location", "search_result_location"];
const THINKING = ["thinking", "redacted_thinking"];
/** Claude Code's first system block holds a hash that differs in every request. */
const BILLING = "x-anthropic-billing-header:";
const GONE = Symbol("gone");

/**
 * One recorded message for an assistant's blocks, one for each result, one for a user's. System
 * messages among `messages` always stay, and are not recorded.
 */
export class MessagesTranscript implements Transcript<unknown> {
  readonly messages: ChatMessage[] = [];
  readonly #request: Json;
  readonly #items: readonly unknown[];
  readonly #places: Place[][];
  /** Results of tools that the provider ran. */
  readonly #served = new Set<number>();

  constructor(request: Json, items: readonly unknown[]) {
    this.#request = request;
    this.#items = items;
    this.#readSystem(request["system"]);
    const end = historyEnd(items);
    this.#places = items.map((item, index) => {
      const blocks = index < end ? blocksOf(item) : null;
      return blocks ? this.#read(String((item as Json)["role"]), blocks) : [];
    });
  }

  apply(plan: Plan): unknown[] {
    const marks = this.#marks(plan);
    const uncited = [...this.#served].some((message) => !plan.shows(message));
    const kept = this.#items.flatMap((own, index): Placed[] => {
      const places = this.#places[index] as Place[];
      const item = marks.get(index) ?? own;
      const left = places.length ? leftOf(item as Json, places, plan) : item;
      if (left === null && places.length) return [];
      return [[index, uncited ? withoutCitations(left) : left]];
    });
    if (kept.length === this.#items.length) return merged(kept, joinBlocks);
    const end = historyEnd(kept.map(([, item]) => item));
    return merged([...inPlace(kept.slice(0, end)), ...kept.slice(end)], joinBlocks);
  }

  #marks(plan: Plan): Map<number, unknown> {
    if (!plan.breakpoints.length) return new Map();
    const blocks = this.#items.flatMap((item, index): Shown[] => {
      const places = this.#places[index] as Place[];
      const of = places.length ? (blocksOf(item) ?? []) : [];
      const all = of.map((block, number) => ({ item: index, number, block, ...(places[number] as Place) }));
      return all.filter((one) => stays(one, plan));
    });
    return marked(this.#request, this.#items, blocks, plan.breakpoints);
  }

  #readSystem(system: unknown): void {
    const isBilling = (block: unknown) => String((block as Json | null)?.["text"]).startsWith(BILLING);
    const told = Array.isArray(system) ? system.filter((block) => !isBilling(block)) : system;
    const isEmpty = Array.isArray(told) ? !told.length : !told;
    if (!isEmpty) this.messages.push({ role: "system", content: textOf(told) });
  }

  /** The model's blocks are one message; results are messages of their own, between others. */
  #read(role: string, blocks: readonly unknown[]): Place[] {
    const isModels = role === "assistant";
    let said: unknown[] = [];
    let calls: ChatCall[] = [];
    const finish = () => {
      if (isModels || said.length) this.#add(role, said, calls);
      [said, calls] = [[], []];
    };
    const places = blocks.map((block): Place => {
      const own = kindOf(block);
      const kind = own === "call" && !isModels ? "other" : own;
      const isResult = kind === "served" ? isModels : kind === "result" && !isModels;
      if (isResult) {
        if (said.length || calls.length) finish();
        const { tool_use_id: id, content } = block as Json;
        if (kind === "served") this.#served.add(this.messages.length);
        return { kind, message: this.messages.push(resultOf(String(id), content)) - 1, call: -1 };
      }
      const message = this.messages.length;
      if (kind === "call") return { kind, message, call: calls.push(callIn(block as Json)) - 1 };
      if (!isModels || kind !== "thinking") said.push(block);
      return { kind, message, call: -1 };
    });
    if (said.length || calls.length || (isModels && places.at(-1)?.kind !== "served")) finish();
    return places;
  }

  #add(role: string, said: unknown[], calls: ChatCall[]): void {
    const told = plainContent(said);
    const content = role === "assistant" && !told?.length ? null : told;
    this.messages.push({ role, content, ...(calls.length ? { tool_calls: calls } : {}) });
  }
}

/**
 * `items` with each system message where the API takes one: after a user's message, and before the
 * model's or at the end. One whose model message has left waits for the next.
 */
function inPlace(items: readonly Placed[]): Placed[] {
  const placed: Placed[] = [];
  let waiting: Placed[] = [];
  let last: unknown;
  for (const one of items) {
    const role = roleOf(one[1]);
    if (role === "system") {
      waiting.push(one);
      continue;
    }
    if (role === "assistant" && last === "user") {
      placed.push(...waiting);
      waiting = [];
    }
    placed.push(one);
    last = role;
  }
  return [...placed, ...waiting];
}

function leftOf(item: Json, places: readonly Place[], plan: Plan): unknown {
  const { content } = item;
  if (typeof content === "string") {
    const { message } = places[0] as Place;
    const text = plan.text(message);
    if (!plan.shows(message) || text === "") return null;
    return text === null ? item : { ...item, content: text };
  }
  const blocks = content as unknown[];
  const said = new Set<number>();
  const left = blocks.map((block, index) => leftOfBlock(block, places[index] as Place, plan, said));
  if (left.every((block, index) => block === blocks[index])) return item;
  const kept = left.filter((block) => block !== GONE);
  return kept.every((block) => kindOf(block) === "thinking") ? null : { ...item, content: kept };
}

/** The block, a copy with less in it, or GONE. `said`: messages whose text is there. */
function leftOfBlock(block: unknown, place: Place, plan: Plan, said: Set<number>): unknown {
  const { kind, message, call } = place;
  if (kind === "thinking" || kind === "other") return block;
  const own = block as Json;
  if (kind === "call") {
    const told = plan.arguments(message, call);
    if (!plan.showsCall(message, call)) return GONE;
    return told === null ? block : { ...own, input: JSON.parse(told) };
  }
  if (!plan.shows(message)) return GONE;
  const text = plan.text(message);
  if (text === null || kind === "media") return block;
  // What the provider's own tools found, it takes back only as it was.
  if (kind === "served" && own["type"] !== "mcp_tool_result") return block;
  if (kind !== "text") return { ...own, content: withText(own["content"], text) };
  if (!text || said.has(message)) return GONE;
  said.add(message);
  return withPart(block, text);
}

/** Whether a block stays as it is, or with its own text shortened. */
function stays({ kind, message, call }: Place, plan: Plan): boolean {
  if (kind === "call") return plan.showsCall(message, call);
  if (kind === "text") return plan.showsWhole(message);
  return (kind === "result" || kind === "media") && plan.shows(message);
}

/** The model's message without pointers into search results: some are no longer there. */
function withoutCitations(item: unknown): unknown {
  const { content } = (item ?? {}) as Json;
  if (roleOf(item) !== "assistant" || !Array.isArray(content)) return item;
  const blocks = content.map((block: unknown) => {
    const { citations, ...rest } = (block ?? {}) as Json;
    const isPointer = (cited: Json | null) => POINTERS.includes(cited?.["type"] as string);
    return Array.isArray(citations) && citations.some(isPointer) ? rest : block;
  });
  return { ...(item as Json), content: blocks };
}

/** A message's content as blocks; null when it is not a user's or the model's. */
function blocksOf(item: unknown): unknown[] | null {
  const { role, content } = (item ?? {}) as Json;
  if (role !== "user" && role !== "assistant") return null;
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? content : null;
}

function roleOf(item: unknown): unknown {
  return (item as Json | null)?.["role"];
}

function kindOf(block: unknown): Kind {
  if (!block || typeof block !== "object") return "other";
  const { type, id, name, tool_use_id: answers } = block as Json;
  if (CALLS.includes(type as string) && isId(id) && typeof name === "string") return "call";
  const kind = typeof type === "string" ? type : "";
  if (kind.endsWith("tool_result") && isId(answers)) return kind === "tool_result" ? "result" : "served";
  if (THINKING.includes(kind)) return "thinking";
  if (holdsText(block)) return "text";
  return isMedia(block) ? "media" : "other";
}

function callIn({ id, name, input }: Json): ChatCall {
  return callOf(String(id), String(name), JSON.stringify(input ?? null));
}

function isId(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
