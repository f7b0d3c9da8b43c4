/**
 * Histories within their budget. Nothing here fails a model call.
 *
 * If the service is down, late or answers nonsense, the original history is sent. A counter and a
 * log line report that, without contents.
 */

import { newestAnswer, type ChatMessage, type Transcript } from "./chat.js";
import { InvalidRequest } from "./errors.js";
import { Plan } from "./plan.js";
import type { PlannedMessage, RenderView } from "./replies.js";

/** The maximum time in milliseconds that a model call waits for its history. */
export const DEADLINE = 2_000;

const RECALL = /(?<=; )recall result \d+ for all of it(?=:?\]\n)/g;
/** The advice in the line above an excerpt, for a model without a tool to recall results. */
const CALL_AGAIN = "call its tool again for all of it";
/** An estimate, for a warning alone. */
const BYTES_PER_TOKEN = 4;
const CHANGES = ["omitted", "substitutes", "dropped_turns", "truncated_messages"] as const;

/** Settings of a rendering. Undefined ones are the session's, or else the service's defaults. */
export interface Settings {
  /** The maximum number of tokens of history. */
  budget?: number | undefined;
  /** A policy's name. */
  policy?: string | undefined;
  /** The policy's parameters. */
  parameters?: Readonly<Record<string, number>> | undefined;
  /** Tools (names, globs) whose results are pinned: they stay while they fit. */
  pinned_tools?: readonly string[] | undefined;
  /** Ids of calls whose results are pinned. */
  pinned_calls?: readonly string[] | undefined;
  /** On a session's first call: the model whose tokens are counted. */
  model?: string | undefined;
}

export interface FitOptions extends Settings {
  /** The maximum time in milliseconds. */
  deadline?: number | undefined;
  /** If false, `fit` throws errors. Otherwise it returns the original history after an error. */
  failOpen?: boolean | undefined;
  /** Tools (names, globs) whose results never change. They are outside the budget. */
  bypass_tools?: readonly string[] | undefined;
  /** True if the model has a tool to recall results: excerpts then name the result's number. */
  recalls?: boolean | undefined;
}

/**
 * The history to send to the model. `messages` are the caller's own objects; a message of which a
 * part is omitted is a copy. `failure` is the reason why the original is sent after an error.
 */
export interface FitResult<T> {
  messages: T[];
  changed: boolean;
  failure: string;
  reply?: RenderView;
}

/** Returns the plan of a reply, with the model's newest message unchanged. */
export function planOf<T>(transcript: Transcript<T>, shown: readonly PlannedMessage[]): Plan {
  const plan = new Plan(transcript.messages, shown);
  plan.showNewest(newestAnswer(transcript.messages), transcript.alternates ?? true);
  return plan;
}

/** Returns the history that a reply's plan shows. */
export function applyReply<T>(
  history: readonly T[],
  transcript: Transcript<T>,
  reply: RenderView,
  bypass: readonly string[] = [],
  recalls = false,
): FitResult<T> {
  const changed = CHANGES.some((change) => reply[change].length);
  const plan = planOf(transcript, reply.plan ?? []);
  for (const { position } of recalls ? [] : reply.substitutes) {
    const text = plan.text(position);
    if (text) plan.replace(position, text.replace(RECALL, CALL_AGAIN));
  }
  const changedResults = plan.resultsOf(bypass).filter((result) => !plan.showsComplete(result));
  for (const result of changedResults) plan.showResult(result);
  const failure = isOverBudget(transcript, reply, changed) ? "unreadable_messages" : "";
  return { messages: changed ? transcript.apply(plan) : [...history], changed, failure, reply };
}

/** Returns whether messages that cannot be read, and so are always sent, exceed the budget. */
function isOverBudget<T>(transcript: Transcript<T>, reply: RenderView, changed: boolean): boolean {
  const unread = transcript.unreadItems ?? [];
  const unreadTokens = unread.reduce<number>((sum, item) => sum + JSON.stringify(item).length, 0) / BYTES_PER_TOKEN;
  const tokens = changed ? reply.tokens_after : reply.tokens_before;
  return unreadTokens >= 1 && tokens + unreadTokens > reply.budget;
}

/** Returns whether a setting is invalid: no later call would succeed either. */
export function isInvalidSetting(failure: unknown): boolean {
  return failure instanceof InvalidRequest && Boolean(failure.details["setting"]);
}
