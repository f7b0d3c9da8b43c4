/**
 * OpenAI Agents SDK for JavaScript: a filter that fits each model call's input into a budget.
 *
 *     new Runner({ callModelInputFilter: contextRenderFilter({ session }) })
 *
 * The SDK's own session keeps every item. A run of the model's items is recorded as one message;
 * each result and each input is its own. Reasoning stays while anything does that it led to.
 */

import { callOf, resultOf, type ChatMessage, type Transcript } from "../chat.js";
import { plainContent, withText } from "../contents.js";
import type { Plan } from "../plan.js";
import { fitter, type AdapterOptions } from "./fitter.js";

/** What is read of the SDK's items. */
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
  /** The SDK's, or a name: it tells a filter of none. */
  session?: string | { getSessionId(): Promise<string> };
}

/** What `callModelInputFilter` takes. */
export function contextRenderFilter({ session, ...options }: FilterOptions = {}) {
  const fit = fitter(options);
  async function filter<I extends object>(asked: {
    modelData: ModelData<I>;
  }): Promise<ModelData<I>> {
    // Not before: a session that is stored elsewhere gets its id there.
    const name = typeof session === "object" ? await session.getSessionId() : session;
    const read = (items: readonly I[]) => new ItemTranscript<I>(items);
    const input = await fit(asked.modelData.input, read, { session: name });
    return { ...asked.modelData, input };
  }
  // It changes no item, so that the SDK need not copy them.
  return Object.assign(filter, { preserveInputIdentity: true });
}

/** What an item is. `spoken` and `input` have a `content`; others are kept as they are. */
type Kind = "call" | "result" | "spoken" | "input" | "reasoning" | "other";

/** What an item is of the recorded history; `group` is the reasoning that led to it. */
interface Place {
  kind: Kind;
  message: number;
  call: number;
  group: number;
}

class ItemTranscript<I extends object> implements Transcript<I> {
  readonly messages: ChatMessage[] = [];
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
    const said = new Set<number>();
    const left = this.#items.map((item, index) => {
      return leftOf(item, this.#places[index] as Place, plan, said) as I | null;
    });
    const kept = new Set(
      this.#places.flatMap(({ kind, group }, i) => (kind !== "reasoning" && left[i] ? group : [])),
    );
    const led = new Set(this.#places.map(({ kind, group }) => (kind === "reasoning" ? -1 : group)));
    return left.filter((item, index): item is I => {
      const { kind, group } = this.#places[index] as Place;
      return item !== null && (kind !== "reasoning" || kept.has(group) || !led.has(group));
    });
  }

  #read(item: Item): Place {
    const kind = kindOf(item);
    if (kind === "reasoning" && this.#last !== "reasoning") this.#group += 1;
    const place = { kind, message: -1, call: -1, group: this.#group };
    this.#last = kind;
    if (kind === "other" || kind === "reasoning") return place;
    if (kind === "spoken") return { ...place, message: this.#readSpoken(item) };
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

  #readSpoken({ content }: Item): number {
    const { place, contents } = this.#ownRun();
    contents.push(...(Array.isArray(content) ? content : [content]));
    (this.messages[place] as ChatMessage).content = plainContent(contents);
    return place;
  }

  #readCall({ callId, name, arguments: given = "" }: Item): { message: number; call: number } {
    const { place } = this.#ownRun();
    const calls = ((this.messages[place] as ChatMessage).tool_calls ??= []);
    return { message: place, call: calls.push(callOf(String(callId), String(name), given)) - 1 };
  }

  /** The assistant message that the current run of the model's items is. */
  #ownRun(): { place: number; contents: unknown[] } {
    const begun = () => this.messages.push({ role: "assistant", content: null }) - 1;
    return (this.#run ??= { place: begun(), contents: [] });
  }
}

function kindOf({ type = "message", role = "", callId, content }: Item): Kind {
  if (type === "reasoning") return "reasoning";
  if (type === "function_call") return callId ? "call" : "other";
  if (type === "function_call_result") return callId ? "result" : "other";
  const isContent = typeof content === "string" || Array.isArray(content);
  if (type !== "message" || !isContent) return "other";
  if (role === "assistant") return "spoken";
  return role === "user" || role === "system" ? "input" : "other";
}

/** The item, a copy with less in it, or null. `said`: messages whose text is there. */
function leftOf(item: Item, place: Place, plan: Plan, said: Set<number>): Item | null {
  const { kind, message, call } = place;
  if (kind === "other" || kind === "reasoning") return item;
  if (kind === "call") {
    const told = plan.arguments(message, call);
    if (!plan.showsCall(message, call)) return null;
    return told === null ? item : { ...item, arguments: told };
  }
  if (!plan.shows(message)) return null;
  const text = plan.text(message);
  if (text === null) return item;
  if (kind === "result") return { ...item, output: outputWith(item.output, text) };
  if (!text || said.has(message)) return null;
  said.add(message);
  const type = kind === "spoken" ? "output_text" : "input_text";
  return { ...item, content: withText(item.content, text, type) };
}

/** An output is a text, one part, or several. */
function outputOf(output: unknown): unknown {
  return output && typeof output === "object" && !Array.isArray(output) ? [output] : output;
}

function outputWith(output: unknown, text: string): unknown {
  if (typeof output === "string") return text;
  if (Array.isArray(output)) return withText(output, text, "input_text");
  return { type: "text", text };
}
