/**
 * OpenAI Agents SDK for JavaScript: a filter that fits each model call's input into a budget.
 *
 *     new Runner({ callModelInputFilter: contextRenderFilter({ session }) })
 *
 * The SDK's own session has every item. Successive items of the model are recorded as one message,
 * each result and each input as a message of its own. Reasoning is sent while any item is sent that
 * follows it.
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

/** The canonical message of an item, its call there, and the number of the reasoning before it. */
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
  #run: { place: number; contents: unknown[] } | null = null;
  #group = 0;
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
    const shownGroups = new Set(
      this.#places.flatMap(({ kind, group }, i) => (kind !== "reasoning" && shown[i] ? group : [])),
    );
    const groupsWithItems = new Set(
      this.#places.map(({ kind, group }) => (kind === "reasoning" ? -1 : group)),
    );
    return shown.filter((item, index): item is I => {
      const { kind, group } = this.#places[index] as Place;
      if (item === null) return false;
      return kind !== "reasoning" || shownGroups.has(group) || !groupsWithItems.has(group);
    });
  }

  /** Gives the first shown call of each message the signature of an omitted one before it. */
  #sign(shown: (I | null)[]): void {
    const omitted = new Map<number, I[]>();
    for (const [index, { kind, message }] of this.#places.entries()) {
      if (kind !== "call") continue;
      const item = shown[index] ?? null;
      if (item === null) omitted.set(message, [...(omitted.get(message) ?? []), this.#items[index] as I]);
      else shown[index] = signFirst(item, omitted.get(message) ?? []);
      if (item !== null) omitted.delete(message);
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
 * The first text item of a message gets its substitute text, and adds the message to `replaced`. The
 * message's other text items are omitted.
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

/** Returns an output as a text or a list of parts; it may be a single part. */
function outputOf(output: unknown): unknown {
  return output && typeof output === "object" && !Array.isArray(output) ? [output] : output;
}

function outputWith(output: unknown, text: string): unknown {
  if (typeof output === "string") return text;
  if (Array.isArray(output)) return withText(output, text, "input_text");
  return { type: "text", text };
}
