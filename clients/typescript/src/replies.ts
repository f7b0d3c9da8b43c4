/** The replies of the service. Made by make_replies.py: change it there. Long because it has all. */

/** What was removed. */
export interface DeleteView {
  session: string;
  nodes: number;
}

/**
 * Tokens of a history within the budget's rule, before and after rendering, and those outside it.
 */
export interface TokenView {
  before: number;
  after: number;
  outside: number;
}

/** A value, and how many results hold it. */
export interface ValueView {
  value: string;
  results: number;
}

/** An operation that drew on a result: a message's text, or a call of the tool named. */
export interface UseView {
  turn: number;
  position: number;
  name: string;
  values: ValueView[];
}

/**
 * Why one result was shown or not: age, c (`reuse`), s (`relevance`), U (`usefulness`), the score
 * it last had, what it costs with its call, when it was taken, or else the reason. Of one that found no
 * room, the tokens `left` when it first no longer fitted, `after` so many had been taken. `pinned`: its caller
 * asked to keep it.
 */
export interface ResultView {
  position: number;
  name: string;
  turn: number;
  age: number;
  reuse: number;
  relevance: number | null;
  usefulness: number | null;
  score: number | null;
  tokens: number;
  cost: number;
  shown: string;
  order: number | null;
  reason: string;
  left: number | null;
  after: number | null;
  pinned: boolean;
  uses: UseView[];
}

/**
 * One model call, explained. Where what it was shown was `noted` when it was made, that is told and only
 * the reasons are recomputed; `sent` is what went to the model: "rendered", or "whole" or "held_out": then
 * the whole history stood in view, and the reasons tell what its rendering would have left out. There were
 * `count` results, of which `complete` and `replaced` are runs of numbers (first, length, ...), `whole_tokens`
 * those of the complete ones, their calls apart (`call_tokens`); `results` are all
 * of them or the page that was asked for.
 */
export interface ExplainView {
  session: string;
  branch: number;
  turn: number;
  noted: boolean;
  sent: string;
  budget: number;
  policy: string;
  tokens: TokenView;
  retained: number;
  dropped_turns: number[];
  warnings: string[];
  count: number;
  complete: number[];
  replaced: number[];
  whole_tokens: number;
  call_tokens: number;
  results: ResultView[];
}

/**
 * A branch's own messages, and when each was recorded (seconds since 1970). `calls` tell by the `position`
 * of its answer (which the last one may still wait for) what each model call was shown, with which settings,
 * and what its provider said of it (`contextrender_bridge.engine.call.call_record`). `messages` end before the first one that cannot be read.
 */
export interface ExportedBranch {
  number: number;
  parent: number;
  fork: number;
  messages: Record<string, unknown>[];
  timestamps: number[];
  calls: Record<string, unknown>[];
}

/**
 * A whole session as plain values, to be kept or imported elsewhere. `damaged` says in
 * a sentence what the store lost of it. Imported and exported again, it has the same bytes.
 */
export interface ExportView {
  format: string;
  session: string;
  settings: Record<string, unknown>;
  head: number;
  branches: ExportedBranch[];
  damaged: string;
}

/** What is recorded now, and how many messages of it were new. */
export interface SyncView {
  session: string;
  branch: number;
  turn: number;
  offset: number;
  digest: string;
  recorded: number;
}

/**
 * What a session's answered calls came to when they were made (`contextrender_bridge.engine.call.usage_totals`): prompt tokens with
 * the whole history, at most the model's window (`full`), and of what was sent; results that answers drew
 * on, and those of them that they had complete; the models that were called (or else the session's own), and dollars at their prices (None: no call has one). No calls: they were only recorded, or not answered yet.
 */
export interface CountedView {
  calls: number;
  full: number;
  prompt: number;
  drawn: number;
  seen: number;
  models: string[];
  cost: number | null;
  is_estimate: boolean;
}

/**
 * A session in a list. `about` is the agent's folder, where it tells it, and the user's first words;
 * empty but in lists; `damaged` in a sentence what the store lost of it, as far as it is known; `client` the program that made the last calls that were counted; `tools` how often each
 * was called.
 */
export interface SessionView {
  session: string;
  about: string;
  damaged: string;
  client: string;
  tools: Record<string, number>;
  created_at: number;
  updated_at: number;
  branches: number;
  messages: number;
  turns: number;
  results: number;
  tokens: number;
  counted: CountedView;
}

/** One line of a session. */
export interface BranchView {
  number: number;
  parent: number;
  fork: number;
  messages: number;
  turns: number;
  results: number;
  tokens: number;
}

/**
 * One tool: its results and their tokens, how many results were used later, the tokens of its declaration.
 * No later answer used `unused_tokens`. Dollars are of the results in the full history, and of the declaration,
 * written to the provider's cache once and read at every later call; None without a price.
 */
export interface ToolView {
  name: string;
  results: number;
  tokens: number;
  reused: number;
  declared: number;
  unused_tokens: number;
  largest: number;
  largest_turn: number;
  dollars: number | null;
  declared_dollars: number | null;
}

/** A session's shape, without contents. */
export interface InspectView {
  session: SessionView;
  head: number;
  settings: Record<string, unknown>;
  lines: BranchView[];
  tools: ToolView[];
  uses: number;
  embedded: number;
}

/** A page of sessions, newest first; `next` is the cursor of the following page, if any. */
export interface SessionPage {
  sessions: SessionView[];
  next: string | null;
}

/** A complete tool result with the call that asked for it. `position` counts on its `branch`. */
export interface RecalledView {
  branch: number;
  position: number;
  turn: number;
  name: string;
  arguments: string;
  tokens: number;
  score: number | null;
  message: Record<string, unknown>;
}

/** The results recalled, best first when there was a query. */
export interface RecallView {
  session: string;
  results: RecalledView[];
}

/** A text that stands in for a result: `kind` is "excerpt", "compaction" or "summary". */
export interface ReplacedView {
  position: number;
  kind: string;
  tokens: number;
  text: string;
}

/**
 * A result that the caller wants kept: `shown` is "complete", "excerpt" or another kind, or
 * "omitted" where there was no room.
 */
export interface KeptView {
  position: number;
  shown: string;
}

/** Tokens of the service's own model calls and embeddings for one rendering. */
export interface UsageView {
  model_tokens_in: number;
  model_tokens_out: number;
  embedding_tokens: number;
}

/**
 * One message of a rendering: its position, which of its calls stay, and a text put in place of
 * its own. With these an adapter renders from its own copy. Where a call is too large to show,
 * `arguments` has for each call that stays what stands in place of its own, or none.
 */
export interface ShownView {
  message: number;
  calls: number[];
  text: string | null;
  arguments: (string | null)[] | null;
}

/**
 * One model call's history. `visible` and `omitted` are positions of tool results, `shortened` of
 * messages whose text or calls are cut short or left out. `breakpoints` are those up to which the
 * prompt will stay as it is: worth a cache breakpoint. `kept` are results that `pinned_tools` or `pinned_calls`
 * asks for. `messages` or `plan` is there as asked for.
 */
export interface RenderView {
  session: string;
  branch: number;
  turn: number;
  offset: number;
  digest: string;
  budget: number;
  policy: string;
  tokens: TokenView;
  visible: number[];
  omitted: number[];
  replaced: ReplacedView[];
  dropped_turns: number[];
  shortened: number[];
  breakpoints: number[];
  kept: KeptView[];
  warnings: string[];
  usage: UsageView;
  messages: Record<string, unknown>[] | null;
  plan: ShownView[] | null;
}
