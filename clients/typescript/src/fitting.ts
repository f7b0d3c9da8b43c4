/**
 * A history made to fit its budget, or left as it was: nothing here fails a model call.
 *
 * When the service is down, late or wrong, the original goes through; a counter and a line in the
 * log say so, never with contents.
 */

import type { ChatMessage, Transcript } from "./chat.js";
import { InvalidRequest } from "./errors.js";
import { Plan } from "./plan.js";
import type { RenderView } from "./replies.js";

/** Milliseconds that a model call waits for its history at most. */
export const DEADLINE = 2_000;

const RECALL = /(?<=; )recall result \d+ for all of it(?=:?\]\n)/g;
/** What the line above an excerpt says to a model that cannot recall. */
const AGAIN = "call its tool again for all of it";
const CHANGES = ["omitted", "substitutes", "dropped_turns", "truncated_messages"] as const;

/** What to render by; what is undefined is the session's, and else the service's default. */
export interface Settings {
  /** Tokens of history. */
  budget?: number | undefined;
  /** A policy's name. */
  policy?: string | undefined;
  /** Numbers of the policy's. */
  parameters?: Readonly<Record<string, number>> | undefined;
  /** Tools (names, globs) whose results stay in view while they fit. */
  pinned_tools?: readonly string[] | undefined;
  /** Ids of calls whose results stay in view while they fit. */
  pinned_calls?: readonly string[] | undefined;
  /** On a session's first call: the model whose tokens are counted. */
  model?: string | undefined;
}

export interface FitOptions extends Settings {
  /** In milliseconds. */
  deadline?: number | undefined;
  /** Whether the original goes through when something fails; else `fit` throws. */
  failOpen?: boolean | undefined;
  /** Tools (names, globs) whose results are never touched: they come on top of the budget. */
  bypass_tools?: readonly string[] | undefined;
  /** Whether the model has a tool to recall results: excerpts then name the result's number. */
  recalls?: boolean | undefined;
}

/**
 * What to send to the model: `messages` are the caller's own objects, or copies of those of which
 * something is left out. `failure` says why they are the original, where that was not meant.
 */
export interface Fitted<T> {
  messages: T[];
  changed: boolean;
  failure: string;
  reply?: RenderView;
}

/** What a reply with a plan makes of a history. */
export function fitted<T>(
  whole: readonly T[],
  transcript: Transcript<T>,
  reply: RenderView,
  bypass: readonly string[] = [],
  recalls = false,
): Fitted<T> {
  const changed = CHANGES.some((change) => reply[change].length);
  const plan = new Plan(transcript.messages, reply.plan ?? []);
  for (const { position } of recalls ? [] : reply.substitutes) {
    const text = plan.text(position);
    if (text) plan.replace(position, text.replace(RECALL, AGAIN));
  }
  const beyond = plan.resultsOf(bypass).filter((result) => !plan.showsWhole(result));
  const summaries = reply.substitutes.filter(({ kind }) => kind === "summary");
  // A summary of the whole history stands in that result's place: all stays.
  if (summaries.some(({ position }) => beyond.includes(position))) {
    return { messages: [...whole], changed: false, failure: "bypass_tools" };
  }
  for (const result of beyond) plan.showResult(result);
  return { messages: changed ? transcript.apply(plan) : [...whole], changed, failure: "", reply };
}

/** Whether a budget, policy or parameter cannot be: no later call would go better. */
export function isCallersMistake(failure: unknown): boolean {
  return failure instanceof InvalidRequest && Boolean(failure.details["setting"]);
}
