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
/** Longer arguments are replaced if a call is shown only to separate two of the model's messages. */
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
  // A call is identified by its key (see `key`).
  readonly #messages: readonly ChatMessage[];
  /** The call that each result answers, by the result's position. */
  readonly #callOf: Map<number, string>;
  /** The calls without a result. */
  readonly #unanswered: Set<string>;
  /** The shown messages with their substitute texts; null for a message's own text. */
  readonly #texts = new Map<number, string | null>();
  /** The shown calls. */
  readonly #calls = new Set<string>();
  /** The substitutes for the arguments of shown calls. */
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
   * Shows the model's `newest` message unchanged, and a line in place of each omitted result.
   *
   * If `alternates` is true, messages of the model must not be neighbours, and the newest message
   * cannot be merged with another. So a result between it and the model's message before it is
   * shown, too.
   */
  showNewest(newest: number, alternates: boolean): void {
    if (newest < 0) return;
    this.#texts.set(newest, null);
    for (const [call] of (this.#messages[newest]?.tool_calls ?? []).entries()) {
      this.#arguments.delete(key(newest, call));
      this.#calls.add(key(newest, call));
    }
    this.#showStubs(newest);
    const before = Math.max(-1, ...this.#remainingBefore(newest));
    // If only calls of a message are shown, so are the results of these calls, after it.
    const hasOnlyCalls = this.#texts.get(before) === "";
    if (alternates && before >= 0 && !hasOnlyCalls) this.#separate(before, newest);
  }

  /** Returns the positions before `message` of messages of which the prompt has any part. */
  #remainingBefore(message: number): number[] {
    const callers = [...this.#calls, ...this.#unanswered].map((call) => partsOfKey(call)[0]);
    const unpairedResults = this.#messages.flatMap(({ role }, position) =>
      role === "tool" && !this.#callOf.has(position) ? [position] : [],
    );
    const remaining = [...this.#texts.keys(), ...callers, ...unpairedResults];
    return remaining.filter((position) => position < message);
  }

  /** Shows the first call of a message whose results are omitted, and a line as its result. */
  #separate(message: number, newest: number): void {
    const answeredCalls = [...this.#callOf].filter(([result]) => result >= message && result < newest);
    const callsOfMessage = answeredCalls
      .map(([, call]) => partsOfKey(call))
      .filter(([caller]) => caller === message);
    const numbers = callsOfMessage.map(([, number]) => number);
    if (!numbers.length || numbers.some((number) => this.#calls.has(key(message, number)))) return;
    const first = Math.min(...numbers);
    this.#calls.add(key(message, first));
    const { length } = callText(this.#messages[message]?.tool_calls?.[first]);
    if (length > LONGEST_STUB) this.#arguments.set(key(message, first), `{"left_out": "${length} characters"}`);
    this.#showStubs(message);
  }

  /** Shows a line in place of each omitted result of the message `caller`. */
  #showStubs(caller: number): void {
    for (const [result, call] of this.#callOf) {
      const isOmitted = this.#calls.has(call) && !this.#texts.has(result);
      if (isOmitted && partsOfKey(call)[0] === caller) this.#texts.set(result, OMITTED_TEXT);
    }
  }

  /** Also shows a result complete, with its call. Does nothing if the result answers no call. */
  showResult(message: number): void {
    const call = this.#callOf.get(message);
    if (call === undefined) return;
    this.#calls.add(call);
    this.#arguments.delete(call);
    const [caller] = partsOfKey(call);
    // If the calling message is omitted, its text stays omitted.
    if (!this.#texts.has(caller)) this.#texts.set(caller, "");
    this.#texts.set(message, null);
  }

  /** Returns the positions of the results of these tools (names, or globs with `*` and `?`). */
  resultsOf(tools: readonly string[]): number[] {
    const patterns = tools.map(patternOf);
    const results = [...this.#callOf].filter(([, callKey]) => {
      const [message, number] = partsOfKey(callKey);
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
 * Several calls may have one id. A result with this id answers one of the latest message with open
 * calls of the id, and the first of these. A call is open until it has a result.
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

/** Returns the key of a call, such as `7.0` for call 0 of message 7. */
function key(message: number, call: number): string {
  return `${message}.${call}`;
}

/** Returns the position of the message, and the number of the call, in a call's key. */
function partsOfKey(callKey: string): [message: number, call: number] {
  const [message = 0, call = 0] = callKey.split(".").map(Number);
  return [message, call];
}
