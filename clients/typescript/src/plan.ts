/**
 * The plan of a prompt: the messages, calls and results that it has, and the substitutes in it.
 *
 * Calls without a result and results without a call are always sent, because the provider may have
 * the other half. The model's newest message is sent unchanged, because some providers refuse it
 * otherwise.
 */

import { callText, type ChatMessage } from "./chat.js";
import type { PlannedMessage } from "./replies.js";

/** The text of an omitted result whose call is in the prompt. */
const OMITTED_TEXT = "[left out: it does not fit]";
/** The most characters of arguments of a call that is shown without its result. */
const LONGEST_STUB = 400;

/**
 * The parts of a message that the prompt has.
 *
 * `shownCalls` are the numbers of its calls in the prompt, and `substituteArguments` the arguments
 * to send instead of theirs (null: their own). `text` is the text to send instead of the message's
 * own (null: its own; empty: none). `isUnchanged` is true if the prompt has the whole message.
 */
export interface ShownParts {
  isShown: boolean;
  shownCalls: number[];
  substituteArguments: (string | null)[];
  text: string | null;
  isUnchanged: boolean;
}

/** The messages, calls and texts that a prompt has, by message position. */
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
    for (const { message, calls, text, arguments: substitutes } of shown) {
      this.#texts.set(message, text ?? null);
      for (const [index, call] of calls.entries()) {
        this.#calls.add(key(message, call));
        const substitute = substitutes?.[index] ?? null;
        if (substitute !== null) this.#arguments.set(key(message, call), substitute);
      }
    }
  }

  /** Returns whether the prompt has a message or a result, complete or with a substitute text. */
  shows(message: number): boolean {
    if (this.#texts.has(message)) return true;
    const { role, content, tool_calls = [] } = this.#messages[message] as ChatMessage;
    if (role === "tool") return !this.#callOf.has(message);
    // A message without text is needed for its unanswered calls, which are always sent.
    return !content && tool_calls.some((_, call) => this.#unanswered.has(key(message, call)));
  }

  /** Returns whether the prompt has the call with number `call` of a message. */
  showsCall(message: number, call: number): boolean {
    const name = key(message, call);
    return this.#calls.has(name) || this.#unanswered.has(name);
  }

  /** Returns the arguments, as JSON text, to send instead of a call's own; null: its own. */
  arguments(message: number, call: number): string | null {
    return this.#arguments.get(key(message, call)) ?? null;
  }

  /** Returns whether the prompt has a message or a result unchanged. */
  showsComplete(message: number): boolean {
    return this.shows(message) && this.text(message) === null;
  }

  /**
   * Shows the model's `newest` message unchanged, and its omitted results as a line.
   *
   * If messages of the model must alternate with others, the message of the model before it needs
   * such a separator, too: its text cannot be merged with the newest message.
   */
  showNewest(newest: number, alternates: boolean): void {
    if (newest < 0) return;
    this.#texts.set(newest, null);
    for (const [call] of (this.#messages[newest]?.tool_calls ?? []).entries()) {
      this.#arguments.delete(key(newest, call));
      this.#calls.add(key(newest, call));
    }
    this.#stub(newest);
    const before = Math.max(-1, ...this.#remainingBefore(newest));
    if (alternates && before >= 0 && this.#texts.get(before) !== "") this.#separate(before, newest);
  }

  /** Returns the messages before a message of which the prompt has any part. */
  #remainingBefore(message: number): number[] {
    const callers = [...this.#calls, ...this.#unanswered].map((call) => Number(call.split(".")[0]));
    const strays = this.#messages.flatMap(({ role }, place) =>
      role === "tool" && !this.#callOf.has(place) ? [place] : [],
    );
    return [...this.#texts.keys(), ...callers, ...strays].filter((place) => place < message);
  }

  /** Shows one call of a message whose results are omitted, and a line as its result. */
  #separate(message: number, newest: number): void {
    const answered = [...this.#callOf].filter(([result]) => result >= message && result < newest);
    const numbers = answered.map(([, call]) => call.split(".").map(Number)).filter(([caller]) => caller === message);
    if (!numbers.length || numbers.some(([, number]) => this.#calls.has(key(message, number ?? 0)))) return;
    const number = Math.min(...numbers.map(([, each]) => each ?? 0));
    this.#calls.add(key(message, number));
    const { length } = callText(this.#messages[message]?.tool_calls?.[number]);
    if (length > LONGEST_STUB) this.#arguments.set(key(message, number), `{"left_out": "${length} characters"}`);
    this.#stub(message);
  }

  /** Shows the omitted results of a message's calls as a line. */
  #stub(caller: number): void {
    for (const [result, call] of this.#callOf) {
      const isOmitted = this.#calls.has(call) && !this.#texts.has(result);
      if (isOmitted && Number(call.split(".")[0]) === caller) this.#texts.set(result, OMITTED_TEXT);
    }
  }

  /** Also shows a result complete, with its call. Does nothing if the result answers no call. */
  showResult(message: number): void {
    const call = this.#callOf.get(message);
    if (call === undefined) return;
    this.#calls.add(call);
    this.#arguments.delete(call);
    const caller = Number(call.split(".")[0]);
    // Restore the call alone: the text of its omitted message stays omitted.
    if (!this.#texts.has(caller)) this.#texts.set(caller, "");
    this.#texts.set(message, null);
  }

  /** Returns the positions of the results of these tools (names, or globs with `*` and `?`). */
  resultsOf(tools: readonly string[]): number[] {
    const patterns = tools.map(patternOf);
    const results = [...this.#callOf].filter(([, callKey]) => {
      const [message = 0, number = 0] = callKey.split(".").map(Number);
      const call = this.#messages[message]?.tool_calls?.[number];
      const name = call?.type === "function" ? call.function.name : "";
      return patterns.some((pattern) => pattern.test(name));
    });
    return results.map(([result]) => result).sort((one, other) => one - other);
  }

  /** Shows `text` instead of a message's text. */
  replace(message: number, text: string): void {
    this.#texts.set(message, text);
  }

  /** Returns the text to send instead of the message's own (null: its own; empty: none). */
  text(message: number): string | null {
    return this.#texts.get(message) ?? null;
  }

  /** Returns the parts that the prompt has of a message with `callCount` calls. */
  partsOf(message: number, callCount = 0): ShownParts {
    const isShown = this.shows(message);
    const shownCalls = [...Array(callCount).keys()].filter((call) => this.showsCall(message, call));
    const text = isShown ? this.text(message) : "";
    const substituteArguments = shownCalls.map((call) => this.arguments(message, call));
    const hasAllCalls =
      shownCalls.length === callCount && substituteArguments.every((value) => value === null);
    const isUnchanged = text === null && hasAllCalls;
    return { isShown, shownCalls, substituteArguments, text, isUnchanged };
  }
}

/**
 * Returns the call that each result answers, and the calls without a result.
 *
 * A result answers the first open call of its id in the latest message that used that id.
 */
function pairs(messages: readonly ChatMessage[]): [Map<number, string>, Set<string>] {
  const open = new Map<string, [number, number][]>();
  const answered = new Map<number, string>();
  for (const [position, message] of messages.entries()) {
    for (const [number, call] of (message.tool_calls ?? []).entries()) {
      open.set(call.id, [...(open.get(call.id) ?? []), [position, number]]);
    }
    const openCalls = open.get(message.tool_call_id ?? "");
    if (message.role !== "tool" || !openCalls?.length) continue;
    const latestMessage = openCalls.at(-1)?.[0];
    const first = openCalls.findIndex(([caller]) => caller === latestMessage);
    const [call] = openCalls.splice(first, 1);
    if (call) answered.set(position, key(...call));
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
