/**
 * OpenAI Agents SDK for JavaScript: a filter that fits each model call's input into a budget.
 *
 *     new Runner({ callModelInputFilter: contextRenderFilter({ session }) })
 *
 * The SDK's own session keeps every item.
 */

import { callOf, resultOf, type ChatMessage, type Transcript } from "../chat.js";
import { plainContent, withText } from "../contents.js";
import type { Plan } from "../plan.js";
import { Fitter, type AdapterOptions } from "./fitter.js";

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

/** What an item is of the recorded history; `group` is the reasoning that led to it. */
interface Place {
  kind: "call" | "result" | "spoken" | "input" | "reasoning" | "other";
  message: number;
  call: number;
  group: number;
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
  const fitter = new Fitter(options);
  async function filter<I extends object>(asked: {
    modelData: ModelData<I>;
  }): Promise<ModelData<I>> {
    // Not before: a session that is stored elsewhere gets its id there.
    const name = typeof session === "object" ? await session.getSessionId() : session;
    const read = (items: readonly I[]) => new ItemTranscript<I>(items);
    const input = await fitter.fit(asked.modelData.input, read, { session: name });
    return { ...asked.modelData, input };
  }
  // It changes no item, so that the SDK need not copy them.
  return Object.assign(filter, { preserveInputIdentity: true });
}

/** A run of the model's items is one message; each result and each input is its own. */
class ItemTranscript<I extends object> implements Transcript<I> {
  readonly messages: ChatMessage[] = [];
  readonly #items: readonly I[];
  readonly #places: Place[];
  #run: { place: number; contents: unknown[] } | null = null;
  #group = 0;
  #last: Place["kind"] = "other";

  constructor(items: readonly I[]) {
    this.#items = items;
    this.#places = items.map((item) => this.#read(item));
  }

  apply(plan: Plan): I[] {
    const said = new Set<number>();
    const left = this.#items.map((item, index) => {
      const place = this.#places[index] as Place;
      return leftOf(item, place, plan, said) as I | null;
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
    if (kind === "spoken" || kind === "call") return { ...place, ...this.#readOwn(item, kind) };
    this.#run = null;
    this.#group += 1;
    const { role = "user", callId = "", content, output } = item;
    const message =
      kind === "result"
        ? resultOf(callId, outputOf(output))
        : { role, content: plainContent(content) };
    return { ...place, message: this.messages.push(message) - 1, group: -1 };
  }

  #readOwn(item: Item, kind: "spoken" | "call"): { message: number; call: number } {
    if (!this.#run) {
      const place = this.messages.push({ role: "assistant", content: null }) - 1;
      this.#run = { place, contents: [] };
    }
    const message = this.messages[this.#run.place] as ChatMessage;
    if (kind === "call") {
      const call = callOf(String(item.callId), String(item.name), item.arguments ?? "");
      message.tool_calls = [...(message.tool_calls ?? []), call];
      return { message: this.#run.place, call: message.tool_calls.length - 1 };
    }
    this.#run.contents.push(...(Array.isArray(item.content) ? item.content : [item.content]));
    message.content = plainContent(this.#run.contents);
    return { message: this.#run.place, call: -1 };
  }
}

function kindOf({ type = "message", role = "", callId, content }: Item): Place["kind"] {
  if (type === "reasoning") return "reasoning";
  if (type === "function_call") return callId ? "call" : "other";
  if (type === "function_call_result") return callId ? "result" : "other";
  const isContent = typeof content === "string" || Array.isArray(content);
  if (type !== "message" || !isContent) return "other";
  if (role === "assistant") return "spoken";
  return role === "user" || role === "system" ? "input" : "other";
}

/** The item, a copy with a text in place of its own, or null. `said`: whose text is there. */
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
  if (kind === "result") return { ...item, output: withOutput(item.output, text) };
  if (!text || said.has(message)) return null;
  said.add(message);
  const type = kind === "spoken" ? "output_text" : "input_text";
  return { ...item, content: withText(item.content, text, type) };
}

/** An output is a text, one part, or several. */
function outputOf(output: unknown): unknown {
  return output && typeof output === "object" && !Array.isArray(output) ? [output] : output;
}

function withOutput(output: unknown, text: string): unknown {
  if (typeof output === "string") return text;
  if (Array.isArray(output)) return withText(output, text, "input_text");
  return { type: "text", text };
}
