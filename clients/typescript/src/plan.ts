/**
 * Which of a transcript's messages, calls and results are shown, and in whose place a text stands.
 *
 * Calls without a result and results without a call are always kept: the agent sent them so, and a
 * provider may know the other half.
 */

import type { ChatMessage } from "./chat.js";
import type { PlannedMessage } from "./replies.js";

/**
 * What stays of a message: its calls, by number, the arguments in place of theirs (null: their own),
 * and the text in place of its own (null: its own, empty: none). `isWhole` says that nothing of it
 * is left out.
 */
export interface Staying {
  isShown: boolean;
  staying: number[];
  told: (string | null)[];
  text: string | null;
  isWhole: boolean;
}

/** What a rendering shows of messages, by their position. */
export class Plan {
  readonly #messages: readonly ChatMessage[];
  /** The call that each result answers, by the result's position. */
  readonly #callOf: Map<number, string>;
  readonly #unanswered: Set<string>;
  readonly #texts = new Map<number, string | null>();
  readonly #calls = new Set<string>();
  readonly #arguments = new Map<string, string>();

  constructor(messages: readonly ChatMessage[], shown: readonly PlannedMessage[]) {
    this.#messages = messages;
    [this.#callOf, this.#unanswered] = pairs(messages);
    for (const { message, calls, text, arguments: told } of shown) {
      this.#texts.set(message, text ?? null);
      for (const [index, call] of calls.entries()) {
        this.#calls.add(key(message, call));
        const cut = told?.[index] ?? null;
        if (cut !== null) this.#arguments.set(key(message, call), cut);
      }
    }
  }

  /** Whether a message's own text, or a result, stays, or a text in its place. */
  shows(message: number): boolean {
    if (this.#texts.has(message)) return true;
    const { role, content, tool_calls = [] } = this.#messages[message] as ChatMessage;
    if (role === "tool") return !this.#callOf.has(message);
    // Of calls that always stay, the message does too, where it says nothing else.
    return !content && tool_calls.some((_, call) => this.#unanswered.has(key(message, call)));
  }

  /** Whether the call stays that is the message's number `call`. */
  showsCall(message: number, call: number): boolean {
    const name = key(message, call);
    return this.#calls.has(name) || this.#unanswered.has(name);
  }

  /** The arguments, as JSON text, in place of a call's own; null: its own. */
  arguments(message: number, call: number): string | null {
    return this.#arguments.get(key(message, call)) ?? null;
  }

  /** Whether a message, or a result, stays as it is. */
  showsWhole(message: number): boolean {
    return this.shows(message) && this.text(message) === null;
  }

  /** Also shows a result, complete, and its call; nothing where it answers none. */
  showResult(message: number): void {
    const call = this.#callOf.get(message);
    if (call === undefined) return;
    this.#calls.add(call);
    this.#arguments.delete(call);
    const asking = Number(call.split(".")[0]);
    // Only the call comes back: of a message that left, the text stays left out.
    if (!this.#texts.has(asking)) this.#texts.set(asking, "");
    this.#texts.set(message, null);
  }

  /** The results of calls of these tools, names or globs (`*`, `?`), by position. */
  resultsOf(tools: readonly string[]): number[] {
    const patterns = tools.map(patternOf);
    const found = [...this.#callOf].filter(([, call]) => {
      const [message = 0, number = 0] = call.split(".").map(Number);
      const asked = this.#messages[message]?.tool_calls?.[number];
      const name = asked?.type === "function" ? asked.function.name : "";
      return patterns.some((pattern) => pattern.test(name));
    });
    return found.map(([result]) => result).sort((one, other) => one - other);
  }

  /** Puts `text` in place of what stands for a message. */
  replace(message: number, text: string): void {
    this.#texts.set(message, text);
  }

  /** The text in place of the message's own; null: its own. Empty: its text is left out. */
  text(message: number): string | null {
    return this.#texts.get(message) ?? null;
  }

  /** What stays of a message that has so many calls. */
  of(message: number, calls = 0): Staying {
    const isShown = this.shows(message);
    const staying = [...Array(calls).keys()].filter((call) => this.showsCall(message, call));
    const text = isShown ? this.text(message) : "";
    const told = staying.map((call) => this.arguments(message, call));
    const isWhole = text === null && staying.length === calls && told.every((own) => own === null);
    return { isShown, staying, told, text, isWhole };
  }
}

/** A result answers the first open call of its id in the latest message that used that id. */
function pairs(messages: readonly ChatMessage[]): [Map<number, string>, Set<string>] {
  const open = new Map<string, [number, number][]>();
  const answered = new Map<number, string>();
  for (const [position, message] of messages.entries()) {
    for (const [number, call] of (message.tool_calls ?? []).entries()) {
      open.set(call.id, [...(open.get(call.id) ?? []), [position, number]]);
    }
    const waiting = open.get(message.tool_call_id ?? "");
    if (message.role !== "tool" || !waiting?.length) continue;
    const latest = waiting.at(-1)?.[0];
    const first = waiting.findIndex(([where]) => where === latest);
    const [found] = waiting.splice(first, 1);
    if (found) answered.set(position, key(...found));
  }
  return [answered, new Set([...open.values()].flat().map((call) => key(...call)))];
}

function patternOf(glob: string): RegExp {
  const escaped = glob.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`, "s");
}

function key(message: number, call: number): string {
  return `${message}.${call}`;
}
