/**
 * OpenAI Agents SDK for JavaScript: a filter that fits each model call's input into a budget.
 *
 *     new Runner({ callModelInputFilter: contextRenderFilter({ session }) })
 *
 * The SDK's own session has every item. Successive items of the model are recorded as one message,
 * each result and each input as a message of its own.
 *
 * A reasoning group is reasoning and the model's items after it, up to the next reasoning, result or
 * input. If any other item of a group is sent, so is the group's reasoning.
 */

import { callOf, resultOf, type ChatMessage, type Transcript } from "../chat.js";
import { plainContent, withText } from "../contents.js";
import type { Plan } from "../plan.js";
import { signFirst } from "../signatures.js";
import { fitter, type AdapterOptions } from "./fitter.js";

/** The fields of the SDK's items that are read. */
interface Item {
  type?: string;
  role?: string;
  content?: unknown;
  callId?: string;
  name?: string;
  arguments?: string;
  output?: unknown;
}

interface ModelData<I> {
  input: I[];
  instructions?: string;
}

export interface FilterOptions extends Omit<AdapterOptions, "session"> {
  /** The SDK's session or a session's name: the SDK does not pass it to a filter. */
  session?: string | { getSessionId(): Promise<string> };
}

/** Returns a function for `callModelInputFilter`. */
export function contextRenderFilter({ session, ...options }: FilterOptions = {}) {
  const fit = fitter(options);
  async function filter<I extends object>(call: {
    modelData: ModelData<I>;
  }): Promise<ModelData<I>> {
    // Ask only now: a session that is stored by a server gets its id there at the first call.
    const name = typeof session === "object" ? await session.getSessionId() : session;
    const read = (items: readonly I[]) => new ItemTranscript<I>(items);
    const input = await fit(call.modelData.input, read, { session: name });
    return { ...call.modelData, input };
  }
  // The filter changes no item in place, so the SDK need not copy them.
  return Object.assign(filter, { preserveInputIdentity: true });
}

/** The kind of an item. `answer` is a text of the model; an item of kind `other` is not read. */
type Kind = "call" | "result" | "answer" | "input" | "reasoning" | "other";

/**
 * The kind of an item, the position of its canonical message, the number of a call in that message,
 * and the number of the item's reasoning group. A number that an item does not have is -1.
 */
interface Place {
  kind: Kind;
  message: number;
  call: number;
  group: number;
}

class ItemTranscript<I extends object> implements Transcript<I> {
  readonly messages: ChatMessage[] = [];
  readonly alternates = false;
  readonly #items: readonly I[];
  readonly #places: Place[];
  /** The assistant message that the model's next item belongs to: its position and its texts. */
  #run: { place: number; contents: unknown[] } | null = null;
  /** The number of the current reasoning group. */
  #group = 0;
  /** The kind of the item that was read last. */
  #last: Kind = "other";

  constructor(items: readonly I[]) {
    this.#items = items;
    this.#places = items.map((item) => this.#read(item));
  }

  apply(plan: Plan): I[] {
    const replaced = new Set<number>();
    const shown = this.#items.map((item, index) => {
      return shownItem(item, this.#places[index] as Place, plan, replaced) as I | null;
    });
    this.#sign(shown);
    // The groups that have items beside their reasoning, and those of which such an item is shown.
    const groupsWithItems = new Set<number>();
    const shownGroups = new Set<number>();
    for (const [index, { kind, group }] of this.#places.entries()) {
      if (kind === "reasoning") continue;
      groupsWithItems.add(group);
      if (shown[index]) shownGroups.add(group);
    }
    return shown.filter((item, index): item is I => {
      const { kind, group } = this.#places[index] as Place;
      if (item === null) return false;
      return kind !== "reasoning" || shownGroups.has(group) || !groupsWithItems.has(group);
    });
  }

  /** Gives the first shown call of each message the signature of an omitted call before it. */
  #sign(shown: (I | null)[]): void {
    // By message: its omitted calls since its last shown call.
    const omitted = new Map<number, I[]>();
    for (const [index, { kind, message }] of this.#places.entries()) {
      if (kind !== "call") continue;
      const item = shown[index] ?? null;
      const omittedBefore = omitted.get(message) ?? [];
      if (item === null) {
        omitted.set(message, [...omittedBefore, this.#items[index] as I]);
      } else {
        shown[index] = signFirst(item, omittedBefore);
        omitted.delete(message);
      }
    }
  }

  #read(item: Item): Place {
    const kind = kindOf(item);
    if (kind === "reasoning" && this.#last !== "reasoning") this.#group += 1;
    const place = { kind, message: -1, call: -1, group: this.#group };
    this.#last = kind;
    if (kind === "other" || kind === "reasoning") return place;
    if (kind === "answer") return { ...place, message: this.#readAnswer(item) };
    if (kind === "call") return { ...place, ...this.#readCall(item) };
    this.#run = null;
    this.#group += 1;
    const { role = "user", content, callId = "", output } = item;
    const message =
      kind === "result"
        ? resultOf(callId, outputOf(output))
        : { role, content: plainContent(content) };
    return { ...place, message: this.messages.push(message) - 1, group: -1 };
  }

  #readAnswer({ content }: Item): number {
    const { place, contents } = this.#currentRun();
    contents.push(...(Array.isArray(content) ? content : [content]));
    (this.messages[place] as ChatMessage).content = plainContent(contents);
    return place;
  }

  #readCall({ callId, name, arguments: json = "" }: Item): { message: number; call: number } {
    const { place } = this.#currentRun();
    const calls = ((this.messages[place] as ChatMessage).tool_calls ??= []);
    return { message: place, call: calls.push(callOf(String(callId), String(name), json)) - 1 };
  }

  /** Returns the assistant message of the current run of the model's items. */
  #currentRun(): { place: number; contents: unknown[] } {
    const addMessage = () => this.messages.push({ role: "assistant", content: null }) - 1;
    return (this.#run ??= { place: addMessage(), contents: [] });
  }
}

function kindOf({ type = "message", role = "", callId, content }: Item): Kind {
  if (type === "reasoning") return "reasoning";
  if (type === "function_call") return callId ? "call" : "other";
  if (type === "function_call_result") return callId ? "result" : "other";
  const isContent = typeof content === "string" || Array.isArray(content);
  if (type !== "message" || !isContent) return "other";
  if (role === "assistant") return "answer";
  return role === "user" || role === "system" ? "input" : "other";
}

/**
 * Returns the item as the plan shows it; null if it is omitted.
 *
 * If the item's message has a substitute text, the message's first text item gets this text, and its
 * other text items are omitted. `replaced` has the messages whose first text item got their text; this
 * function adds the message.
 */
function shownItem(item: Item, place: Place, plan: Plan, replaced: Set<number>): Item | null {
  const { kind, message, call } = place;
  if (kind === "other" || kind === "reasoning") return item;
  if (kind === "call") {
    if (!plan.showsCall(message, call)) return null;
    const substitute = plan.arguments(message, call);
    return substitute === null ? item : { ...item, arguments: substitute };
  }
  if (!plan.shows(message)) return null;
  const text = plan.text(message);
  if (text === null) return item;
  if (kind === "result") return { ...item, output: outputWith(item.output, text) };
  if (!text || replaced.has(message)) return null;
  replaced.add(message);
  const type = kind === "answer" ? "output_text" : "input_text";
  return { ...item, content: withText(item.content, text, type) };
}

/** Returns an output as a text or a list of parts. The SDK's output may also be a single part. */
function outputOf(output: unknown): unknown {
  return output && typeof output === "object" && !Array.isArray(output) ? [output] : output;
}

function outputWith(output: unknown, text: string): unknown {
  if (typeof output === "string") return text;
  if (Array.isArray(output)) return withText(output, text, "input_text");
  return { type: "text", text };
}
