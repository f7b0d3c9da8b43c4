/**
 * Histories of items: a run of the model's items is one message; each result and each input is its
 * own. Reasoning stays while anything does that it led to.
 */

import type { ChatCall, ChatMessage, Transcript } from "./chat.js";
import { plainContent, withText } from "./contents.js";
import type { Plan } from "./plan.js";

/** What an item is. `spoken` and `input` have a `content`; others are kept as they are. */
export type Kind = "call" | "result" | "spoken" | "input" | "reasoning" | "other";

/** How items of one kind of API are read, and written with less in them. */
export interface ItemFormat<I> {
  kindOf(item: I): Kind;
  call(item: I): ChatCall;
  result(item: I): ChatMessage;
  withArguments(item: I, told: string): I;
  withOutput(item: I, text: string): I;
}

/** What an item is of the recorded history; `group` is the reasoning that led to it. */
interface Place {
  kind: Kind;
  message: number;
  call: number;
  group: number;
}

/** What is read of an item whatever its API. */
interface Spoken {
  role?: string;
  content?: unknown;
}

export class RunTranscript<I> implements Transcript<I> {
  readonly messages: ChatMessage[] = [];
  readonly #items: readonly I[];
  readonly #format: ItemFormat<I>;
  readonly #places: Place[];
  #run: { place: number; contents: unknown[] } | null = null;
  #group = 0;
  #last: Kind = "other";

  constructor(items: readonly I[], format: ItemFormat<I>) {
    this.#items = items;
    this.#format = format;
    this.#places = items.map((item) => this.#read(item));
  }

  apply(plan: Plan): I[] {
    const said = new Set<number>();
    const left = this.#items.map((item, index) => {
      return this.#leftOf(item, this.#places[index] as Place, plan, said);
    });
    const kept = new Set(
      this.#places.flatMap(({ kind, group }, i) => (kind !== "reasoning" && left[i] !== GONE ? group : [])),
    );
    const led = new Set(this.#places.map(({ kind, group }) => (kind === "reasoning" ? -1 : group)));
    return left.filter((item, index): item is I => {
      const { kind, group } = this.#places[index] as Place;
      return item !== GONE && (kind !== "reasoning" || kept.has(group) || !led.has(group));
    });
  }

  #read(item: I): Place {
    const kind = this.#format.kindOf(item);
    if (kind === "reasoning" && this.#last !== "reasoning") this.#group += 1;
    const place = { kind, message: -1, call: -1, group: this.#group };
    this.#last = kind;
    if (kind === "other" || kind === "reasoning") return place;
    if (kind === "spoken") return { ...place, message: this.#readSpoken(item as Spoken) };
    if (kind === "call") return { ...place, ...this.#readCall(item) };
    this.#run = null;
    this.#group += 1;
    const { role = "user", content } = item as Spoken;
    const message = kind === "result" ? this.#format.result(item) : { role, content: plainContent(content) };
    return { ...place, message: this.messages.push(message) - 1, group: -1 };
  }

  #readSpoken({ content }: Spoken): number {
    const { place, contents } = this.#ownRun();
    contents.push(...(Array.isArray(content) ? content : [content]));
    (this.messages[place] as ChatMessage).content = plainContent(contents);
    return place;
  }

  #readCall(item: I): { message: number; call: number } {
    const { place } = this.#ownRun();
    const message = this.messages[place] as ChatMessage;
    const calls = (message.tool_calls ??= []);
    return { message: place, call: calls.push(this.#format.call(item)) - 1 };
  }

  /** The assistant message that the current run of the model's items is. */
  #ownRun(): { place: number; contents: unknown[] } {
    const begun = () => this.messages.push({ role: "assistant", content: null }) - 1;
    return (this.#run ??= { place: begun(), contents: [] });
  }

  /** The item, a copy with less in it, or GONE. `said`: messages whose text is there. */
  #leftOf(item: I, place: Place, plan: Plan, said: Set<number>): I | typeof GONE {
    const { kind, message, call } = place;
    if (kind === "other" || kind === "reasoning") return item;
    if (kind === "call") {
      const told = plan.arguments(message, call);
      if (!plan.showsCall(message, call)) return GONE;
      return told === null ? item : this.#format.withArguments(item, told);
    }
    if (!plan.shows(message)) return GONE;
    const text = plan.text(message);
    if (text === null) return item;
    if (kind === "result") return this.#format.withOutput(item, text);
    if (!text || said.has(message)) return GONE;
    said.add(message);
    const type = kind === "spoken" ? "output_text" : "input_text";
    return { ...item, content: withText((item as Spoken).content, text, type) };
  }
}

/** What stands for an item that leaves: an item itself may be null. */
const GONE = Symbol("gone");
