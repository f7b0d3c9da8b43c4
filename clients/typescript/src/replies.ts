/** The replies of the service. Made by make_replies.py: change it there. Long because it has all. */

/** The reply to a deletion: the session, and the number of nodes that were removed. */
export interface DeleteView {
  session: string;
  nodes: number;
}

/** A value, and the number of results that contain it. */
export interface ValueView {
  value: string;
  results: number;
}

/** A later operation that used a result: a message's text, or a call of the tool `name`. */
export interface UseView {
  turn: number;
  position: number;
  name: string;
  values: ValueView[];
}

/**
 * The reason why a prompt shows or omits one result. `age`, `reuse` (c), `relevance` (s), `usefulness` (U) and `score` are
 * the policy's figures (docs/method.md); `cost` is the tokens of the result with its call. `order` is its place among the
 * selected results, else `reason` says why it was omitted. If it did not fit, `remaining_tokens` were left after
 * `selected_count` results had been selected. `pinned` tells whether the caller pinned it.
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
  display: string;
  order: number | null;
  reason: string;
  remaining_tokens: number | null;
  selected_count: number | null;
  pinned: boolean;
  uses: UseView[];
}

/**
 * One model call, explained. If the prompt was `recorded` with the call, the reply has the recorded prompt, and only the
 * reasons are recomputed. `delivery` is what the model was sent: "rendered", "full" or "holdout". With the last two the
 * model had the full history, and the reasons say what its rendering would have omitted. There were `count` results.
 * `complete` and `substitutes` are runs of result numbers: first, length, first, length. `complete_tokens` are the tokens
 * of the complete results, `call_tokens` those of their calls, `text_tokens` those of text. `results` has all results, or
 * the page that the request asked for.
 */
export interface ExplainView {
  session: string;
  branch: number;
  turn: number;
  recorded: boolean;
  delivery: string;
  budget: number;
  policy: string;
  tokens_before: number;
  tokens_after: number;
  tokens_unbudgeted: number;
  text_tokens: number;
  dropped_turns: number[];
  warnings: string[];
  count: number;
  complete: number[];
  substitutes: number[];
  complete_tokens: number;
  call_tokens: number;
  results: ResultView[];
}

/**
 * A branch's own messages, after the first `fork_position` messages of `parent`. `timestamps` are seconds since 1970. `calls`
 * has the record of each model call (`contextrender_bridge.engine.call.call_record`); its `position` is that of the call's
 * answer, also if the answer is not there yet. `messages` ends before the first message that cannot be read.
 */
export interface ExportedBranch {
  number: number;
  parent: number;
  fork_position: number;
  messages: Record<string, unknown>[];
  timestamps: number[];
  calls: Record<string, unknown>[];
}

/**
 * A whole session as plain values. `damage` says in a sentence which part the store has lost. An imported session is exported
 * again with the same bytes.
 */
export interface ExportView {
  format: string;
  session: string;
  settings: Record<string, unknown>;
  head: number;
  branches: ExportedBranch[];
  damage: string;
}

/** The recorded part of a session. `recorded` counts the messages that this request added. */
export interface SyncView {
  session: string;
  branch: number;
  turn: number;
  offset: number;
  digest: string;
  recorded: number;
}

/**
 * The totals of a session's answered calls, as they were counted with each call. `full` is the prompt tokens with the full
 * history, at most the model's window, and `prompt` those that were sent. `results_used` are the results that answers
 * used, `results_used_visible` those of them that were complete. Of the `steps`, the calls whose answer used an earlier result, `steps_with_misses` missed a value;
 * `misses` counts every miss. `models` are the models of the calls, or the session's own
 * if there are none. `cost` is in dollars, None if no call's model has a price. With `is_estimate` it is not the
 * provider's count for every call. `calls` is 0 if the session was only recorded, or no call has an answer yet.
 */
export interface SessionTotals {
  calls: number;
  full: number;
  prompt: number;
  results_used: number;
  results_used_visible: number;
  steps: number;
  steps_with_misses: number;
  misses: number;
  models: string[];
  cost: number | null;
  is_estimate: boolean;
}

/**
 * A session. `about` is the agent's folder, if it names one, and the user's first words; it is empty except in lists.
 * `damage` says which part the store has lost, as far as that is known. `client` is the program that made the newest
 * counted calls. `tools` is the number of calls per tool.
 */
export interface SessionView {
  session: string;
  about: string;
  damage: string;
  client: string;
  tools: Record<string, number>;
  created_at: number;
  updated_at: number;
  branches: number;
  messages: number;
  turns: number;
  results: number;
  tokens: number;
  totals: SessionTotals;
}

/** One branch of a session, with the counts of its whole history. */
export interface BranchView {
  number: number;
  parent: number;
  fork_position: number;
  messages: number;
  turns: number;
  results: number;
  tokens: number;
}

/**
 * One tool. `results` and `tokens` count its results, `reused` those that a later operation used. No later operation used
 * `unused_tokens`. `declared` is the tokens of the tool's declaration. `dollars` is the cost of its results in the full
 * history, and `declared_dollars` that of its declaration: written to the provider's cache once and read at every later
 * call. Both are None without a price.
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

/**
 * The shape of a session, without contents. `tools` are those of the branch that was asked for, `uses` the number of its
 * uses of results, `embedded_results` the number of its results with a stored vector.
 */
export interface InspectView {
  session: SessionView;
  head: number;
  settings: Record<string, unknown>;
  branches: BranchView[];
  tools: ToolView[];
  uses: number;
  embedded_results: number;
}

/**
 * A page of sessions, the newest first. `next` is the cursor of the next page, None at the end.
 */
export interface SessionPage {
  sessions: SessionView[];
  next: string | null;
}

/**
 * A complete tool result with its tool call. `position` counts messages on `branch`. `score` is None without a query.
 */
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

/** The recalled results. With a query the best comes first. */
export interface RecallView {
  session: string;
  results: RecalledView[];
}

/** A text shown instead of a result's own. `kind` is "excerpt", "compaction" or "summary". */
export interface SubstituteView {
  position: number;
  kind: string;
  tokens: number;
  text: string;
}

/**
 * A pinned result. `display` is "complete", "excerpt" or another kind of substitute, or "omitted" if it did not fit.
 */
export interface PinnedView {
  position: number;
  display: string;
}

/** The tokens that the service's own model calls and embeddings used for one rendering. */
export interface UsageView {
  model_tokens_in: number;
  model_tokens_out: number;
  embedding_tokens: number;
}

/**
 * One message of a prompt: its position, the numbers of its calls that the prompt has, and a text instead of its
 * own. A client renders its own copy from this plan. If a call is too large to show, `arguments` has one entry
 * per call that the prompt has: the text instead of its arguments, or None.
 */
export interface PlannedMessage {
  message: number;
  calls: number[];
  text: string | null;
  arguments: (string | null)[] | null;
}

/**
 * The prompt of one model call. `complete` and `omitted` are the positions of tool results, `truncated_messages` of
 * messages whose text or calls are cut. `tokens_before` and `tokens_after` count the history before and after
 * rendering. `tokens_unbudgeted` counts the system prompt and the current user message, which the budget does not
 * include. The prompt stays unchanged up to the positions in `breakpoints`: each is worth a cache breakpoint.
 * `pinned` lists the results of `pinned_tools` and `pinned_calls`. The reply has `messages` or `plan`, as `output`
 * says.
 */
export interface RenderView {
  session: string;
  branch: number;
  turn: number;
  offset: number;
  digest: string;
  budget: number;
  policy: string;
  tokens_before: number;
  tokens_after: number;
  tokens_unbudgeted: number;
  complete: number[];
  omitted: number[];
  substitutes: SubstituteView[];
  dropped_turns: number[];
  truncated_messages: number[];
  breakpoints: number[];
  pinned: PinnedView[];
  warnings: string[];
  usage: UsageView;
  messages: Record<string, unknown>[] | null;
  plan: PlannedMessage[] | null;
}
