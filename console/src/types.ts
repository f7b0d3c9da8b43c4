/** The replies of the service. Made by make_replies.py: change it there. Long because it has all. */

import type { ExplainView } from "../../clients/typescript/src/replies";

export type * from "../../clients/typescript/src/replies";

/**
 * A policy and budget tried: the whole bill as a share of full history's, the share of the steps
 * drawing on results that would lack something (None: no step draws on any), and dollars.
 */
export interface AdvisedView {
  policy: string;
  budget: number | string;
  cost: number | null;
  hidden: number | null;
  dollars: number;
  full_dollars: number;
}

/**
 * The verdict on a branch's first `calls` of `last` model calls. `best` is one of `options`, None for
 * full history; `rule` names whose prompt cache the bills are by.
 */
export interface AdviceView {
  session: string;
  branch: number;
  calls: number;
  last: number;
  sentence: string;
  rule: string;
  best: AdvisedView | null;
  options: AdvisedView[];
}

/**
 * The verdict on the first `calls` model calls of each of many sessions. Of the newest `sessions` that
 * have calls, `weighed` are replayed so far, `replayed` calls in all; `complete` is false while others are
 * left: ask again. Shares are of all their bills and steps together, dollars those of a session.
 */
export interface AllAdviceView {
  sessions: number;
  weighed: number;
  calls: number;
  replayed: number;
  complete: boolean;
  sentence: string;
  rule: string;
  best: AdvisedView | null;
  options: AdvisedView[];
}

/**
 * A policy over the answered calls up to `turns` of `last`: prompt tokens with it and of full history (at most
 * the model's window), how much of them the prompt before had, recall events and those in view, and dollars at
 * the models' own prices: None where no call has one. `unpriced` calls are not in them; `priced_as` has models
 * whose price is another's, and whose.
 */
export interface PolicyView {
  policy: string;
  budget: number | string;
  turns: number;
  last: number;
  prompt: number;
  full: number;
  cached: number;
  output: number;
  events: number;
  seen: number;
  recall: number | null;
  cost: number | null;
  full_cost: number | null;
  unpriced: number;
  priced_as: Record<string, string>;
}

/** The same session under several policies. */
export interface CompareView {
  session: string;
  branch: number;
  complete: boolean;
  policies: PolicyView[];
}

/**
 * A link: what names it, when it was made and ends (seconds since 1970). `path` follows the server's
 * address; whoever has it reads the session.
 */
export interface LinkView {
  session: string;
  id: string;
  label: string;
  made_at: number;
  ends_at: number;
  path: string;
}

/** The links of a session that open it, the newest first. */
export interface LinksView {
  session: string;
  links: LinkView[];
}

/**
 * The tool results of a range of calls, an entry each: number `first` and on. `names` are indexes
 * into `tools`.
 */
export interface ResultColumns {
  first: number;
  tools: string[];
  names: number[];
  positions: number[];
  turns: number[];
  tokens: number[];
}

/**
 * One call: tokens of the history before and after rendering, those outside the budget's rule and
 * those of retained text; runs of result numbers shown complete and replaced (first, length, ...);
 * the results that the turn then drew on, those whose recall is measured, how many of these were
 * in view, and the results that were missed (docs/method.md, Misses). It is told as it was
 * `noted` when the call was made, else recomputed by today's rules.
 * `sent` is "rendered", "whole" or "held_out"; `billed` what the provider said: tokens not from its
 * cache, read from it, written to it, written for an hour, and output. `budget` is the call's own, in tokens;
 * it `faulted` where it grew because the turn before had said what it was not shown.
 */
export interface TurnView {
  turn: number;
  results: number;
  before: number;
  after: number;
  outside: number;
  retained: number;
  complete: number[];
  replaced: number[];
  uses: number[];
  needed: number[];
  seen: number;
  missed: number[];
  noted: boolean;
  sent: string;
  model: string;
  billed: number[] | null;
  budget: number;
  faulted: boolean;
}

/**
 * A range of a branch's calls. `next` is the turn to go on from, if there are more; `waiting` tells
 * that the model has not spoken since the last one. Of a `rough` one `needed`, `seen` and `missed` are not
 * told yet, nor uses of results that are not among its own (`walkers/glimpse.jac`).
 */
export interface TimelineView {
  session: string;
  branch: number;
  last: number;
  waiting: boolean;
  rough: boolean;
  budget: number | string;
  policy: string;
  policies: string[];
  results: ResultColumns;
  turns: TurnView[];
  next: number | null;
}

/**
 * A tool call of a message: the beginning of its arguments, its result's position, if it has
 * one, and whether the call stays.
 */
export interface CallLine {
  name: string;
  tokens: number;
  text: string;
  whole: boolean;
  result: number | null;
  shown: boolean;
}

/**
 * One message before a call: `shown` is "whole", "excerpt", "compaction", "summary" or
 * "omitted", `text` its beginning as the model got it (as it was recorded, where omitted), all of
 * it if `whole`.
 */
export interface MessageLine {
  position: number;
  role: string;
  name: string;
  turn: number;
  tokens: number;
  shown: string;
  outside: boolean;
  text: string;
  whole: boolean;
  calls: CallLine[];
}

/**
 * One model call: why each result was shown or not, and the history before it, message by message: all of
 * the `before` messages, or those asked for; of `got` of them something was shown. `parameters` are those it
 * was computed with, `last` the number of the branch's last call. Of a `rough` one no results are told, nor the
 * words of excerpts, nor `got` (`walkers/glimpse_call.jac`).
 */
export interface CallView {
  explain: ExplainView;
  parameters: Record<string, number>;
  last: number;
  rough: boolean;
  before: number;
  got: number | null;
  messages: MessageLine[];
}

/**
 * A measure's mean in rendered sessions over that in held-out ones, within `low` and `high`.
 *
 * The interval is the 95% one of a bootstrap by session; nothing is told of too few sessions.
 */
export interface Ratio {
  measure: string;
  rendered: number;
  held_out: number;
  ratio: number | null;
  low: number | null;
  high: number | null;
}

/**
 * Sessions since the first that was held out. `unbilled` are those of which no provider told usage.
 */
export interface HoldoutView {
  sentence: string;
  since: number | null;
  rendered: number;
  held_out: number;
  unbilled: number;
  measures: Ratio[];
}

/**
 * A field as text, the beginning of a long one; `length` is that of the whole, in characters or bytes.
 */
export interface FieldView {
  name: string;
  kind: string;
  text: string;
  length: number;
}

/** How many edges of a type leave a node, or come in. */
export interface DegreeView {
  kind: string;
  outgoing: boolean;
  count: number;
}

/**
 * An edge of a node, by its other end. `values` are what a Reuse edge carries, the first of them.
 */
export interface EdgeView {
  kind: string;
  outgoing: boolean;
  id: string;
  end: string;
  label: string;
  values: string[];
}

/**
 * A node of the caller's. `degrees` is empty where they are not counted: a root's, of its sessions.
 */
export interface NodeView {
  id: string;
  owner: string;
  kind: string;
  label: string;
  fields: FieldView[];
  degrees: DegreeView[];
  edges: EdgeView[];
  next: number | null;
}

/**
 * A result that the call before `turn` did not show complete and its answer needed: the `values` it
 * used that stood nowhere in view, the rarest first, or its own call made `again`. `names_only`: these are names of
 * tools or fields alone, which an agent knows without the result. `cost` is what it would have taken;
 * `reason`, `left` and `after` are as in `explain`.
 */
export interface MissView {
  turn: number;
  result: number;
  position: number;
  name: string;
  values: string[];
  again: boolean;
  names_only: boolean;
  shown: string;
  cost: number;
  reason: string;
  left: number | null;
  after: number | null;
}

/**
 * The misses of a range of a branch's calls, in order. `next` is the turn to go on from, if there
 * are more.
 */
export interface MissesView {
  session: string;
  branch: number;
  last: number;
  turns: number;
  misses: MissView[];
  next: number | null;
}

/** Whether a call was known, so that something could be noted of it. */
export interface NotedView {
  session: string;
  branch: number;
  noted: boolean;
}

/** An operation in the graph of reuse: a message's text or a call, by its number among events. */
export interface OperationView {
  event: number;
  position: number;
  turn: number;
  name: string;
}

/** A value of a result and the operations that drew on it. */
export interface UsedValue {
  value: string;
  uses: OperationView[];
}

/** A call that a message made: the tool's name and the arguments as they were written. */
export interface CallTextView {
  name: string;
  arguments: string;
}

/** A result that a message drew on, or one of its calls did, and the values it drew. */
export interface DrawnView {
  position: number;
  name: string;
  values: string[];
}

/**
 * A part of one message's text, from character `start`; `length` is that of all of it. `arguments` and
 * `used` are of a tool result, `calls` and `drawn` of a message that made or said something.
 */
export interface ContentView {
  session: string;
  position: number;
  role: string;
  name: string;
  turn: number;
  tokens: number;
  arguments: string;
  start: number;
  length: number;
  text: string;
  used: UsedValue[];
  calls: CallTextView[];
  drawn: DrawnView[];
}

/**
 * What would have put a miss in view: the smallest of the `tried` budgets, and policies at the
 * call's own budget. `complete` is false where there was no time to try all.
 */
export interface RemediesView {
  session: string;
  branch: number;
  turn: number;
  position: number;
  tried: number[];
  budget: number | null;
  policies: string[];
  complete: boolean;
}

/** An operation drew on a result (by number): `count` values, the first of them in `values`. */
export interface ReuseView {
  operation: number;
  result: number;
  count: number;
  values: string[];
}

/**
 * A branch's results, and the operations that drew on them. `calls` has the event of the call that each
 * result answers, -1 for none: the operation that brought it; `files` are those that calls name, and `file_of`
 * has the number of each result's, -1 for none.
 */
export interface GraphView {
  session: string;
  branch: number;
  last: number;
  results: ResultColumns;
  calls: number[];
  files: string[];
  file_of: number[];
  operations: OperationView[];
  edges: ReuseView[];
}

/** A policy's figures at every call; costs are cumulative. */
export interface SavingsColumns {
  prompt: number[];
  full: number[];
  cost: number[];
  full_cost: number[];
  events: number[];
  seen: number[];
}

/**
 * What a session saved so far. `complete` is false while there are calls still to recompute: ask
 * again.
 */
export interface SavingsView {
  session: string;
  branch: number;
  complete: boolean;
  totals: PolicyView;
  columns: SavingsColumns | null;
}

/**
 * An event that holds what was looked for, with the text around its first place in it.
 *
 * `kind` is "result", "call" or the role of a message. `position` counts messages on its `branch`, of a
 * call that of its message; `turn` is the model call that made it, or of which it was news. `start`
 * counts characters, `count` up to a thousand places. `failed`: a result that looks like an error.
 */
export interface FoundView {
  session: string;
  branch: number;
  position: number;
  turn: number;
  kind: string;
  name: string;
  tokens: number;
  failed: boolean;
  count: number;
  start: number;
  before: string;
  found: string;
  after: string;
}

/**
 * Newest first. So many `sessions` were begun for this page, and `events` looked through; `next` is the cursor of the
 * following one, None once there is nothing left to look through. A page may be empty before the end.
 */
export interface SearchView {
  matches: FoundView[];
  sessions: number;
  events: number;
  next: string | null;
}

/**
 * Answered calls of one day, client, model, policy and way of sending (docs/method.md, What a call was
 * shown): how many had a history over the budget (`over`), prompt tokens with the whole history, the same
 * at most the model's window (`capped`), those sent and cached of them, tokens written, results that
 * answers drew on and those of them in view. Dollars are None where the model has no price; `priced_as` is
 * the model whose price was taken where it is not its own, else empty. `billed_cost`
 * is what the provider's own counts come to for `billed` calls, `whole_cost` what those would have cost
 * with the whole history, about.
 */
export interface SavedRow {
  day: string;
  client: string;
  model: string;
  policy: string;
  sent: string;
  calls: number;
  over: number;
  full: number;
  capped: number;
  capped_cached: number;
  prompt: number;
  cached: number;
  output: number;
  drawn: number;
  seen: number;
  billed: number;
  cost: number | null;
  full_cost: number | null;
  billed_cost: number | null;
  whole_cost: number | null;
  priced_as: string;
}

/**
 * What all sessions saved so far. `counted` of the `sessions` have calls with stored facts; the others
 * were only recorded, or are older than that.
 */
export interface TotalSavingsView {
  sessions: number;
  counted: number;
  rows: SavedRow[];
}

/** A value: the result it was first seen in, every result that holds it, every use of it. */
export interface ValueTraceView {
  session: string;
  value: string;
  first: number;
  holders: number[];
  uses: OperationView[];
}
