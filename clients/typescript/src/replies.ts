/** The replies of the service. Made by make_replies.py: change it there. Long because it has all. */

/**
 * The text that replaces a history at a compaction. `tokens` is the size of the text, `tokens_before` the size of the history. The
 * history has `results` results. The text shows `complete` of them in full, and excerpts of `excerpts` others. `branch` has `offset`
 * messages, whose digest is `digest`.
 */
export interface CompactionView {
  session: string;
  branch: number;
  offset: number;
  digest: string;
  text: string;
  tokens: number;
  tokens_before: number;
  results: number;
  complete: number;
  excerpts: number;
}

/**
 * The figures of a policy over the first `turns` of a session's `turn_count` answered calls. `prompt` and `full` are the prompt
 * tokens with the policy and with the full history, which counts at most the model's window. `cached` are the tokens of `prompt`
 * that the previous prompt had, too. `recall_events` counts the events of the paper's recall (docs/evaluation.md),
 * `recall_events_complete` the events whose result was complete, and `recall` is their quotient. `steps` are the calls whose answer
 * used an earlier result, and `steps_with_misses` are the steps that missed a value. `cost` and `full_cost` are dollars at the
 * models' prices, None if no call's model has a price. They do not include `calls_without_price`. `price_source` maps models
 * without a price of their own to the model whose price was used.
 */
export interface PolicyView {
  policy: string;
  budget: number | string;
  turns: number;
  turn_count: number;
  prompt: number;
  full: number;
  cached: number;
  output: number;
  recall_events: number;
  recall_events_complete: number;
  recall: number | null;
  steps: number;
  steps_with_misses: number;
  misses: number;
  cost: number | null;
  full_cost: number | null;
  calls_without_price: number;
  price_source: Record<string, string>;
}

/**
 * The same session under several settings, over its first `turns` of `turn_count` answered calls. `current_option` is the index in
 * `options` of the setting in use, None if that is not among them. `best_option` is the index of the recommended setting, None if
 * the full history is recommended. `summary` says which setting to use.
 */
export interface CompareView {
  session: string;
  branch: number;
  complete: boolean;
  turns: number;
  turn_count: number;
  current_option: number | null;
  best_option: number | null;
  summary: string;
  options: PolicyView[];
}

/** The reply to a deletion: the session, and the number of nodes that were removed. */
export interface DeleteView {
  session: string;
  nodes: number;
}

/**
 * A loss through a compaction: the answer of `turn` used `values` that its prompt no longer had, or asked for these values again.
 * `kind` says which. The tool call `call` had returned the values before turn `read_turn`, and they were dropped after turn
 * `dropped_turn`. If the agent fetched them again at turn `repeated_turn`, that took `tokens` and `dollars`.
 */
export interface LossView {
  turn: number;
  kind: string;
  call: string;
  values: string[];
  read_turn: number;
  dropped_turn: number;
  repeated_turn: number | null;
  tokens: number;
  dollars: number | null;
  summary: string;
}

/**
 * The losses of a stored session through its agent's own compactions. `summary` describes them in a sentence.
 */
export interface DiagnosisView {
  session: string;
  summary: string;
  turns: number;
  compactions: number;
  losses: LossView[];
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
 * The reason why a prompt shows or omits one result. `age`, `reuse` (c), `relevance` (s), `usefulness` (U) and `score` are the
 * policy's figures (docs/method.md). `cost` is the tokens of the result with its call. `order` is the place of the result among the
 * selected results. If it is None, `reason` says why the result was omitted. If the result did not fit, `remaining_tokens` tokens
 * were left after `selected_count` results had been selected. `pinned` is true if the caller pinned the result. `edited_at` is the
 * first turn that edited the result's file after the result, so that the result is an old version; None if there is no such turn.
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
  edited_at: number | null;
  uses: UseView[];
}

/**
 * One model call, explained. If the prompt was `recorded` with the call, the reply has the recorded prompt, and only the reasons
 * are recomputed. `delivery` says what the model received: "rendered", "full" or "holdout". With "full" and "holdout", the model had
 * the full history, and the reasons say what a rendering would have omitted. There were `count` results. `complete` and
 * `substitutes` are runs of result numbers: [0, 3, 7, 1] stands for the results 0, 1, 2 and 7, because it has the first number and
 * the length of each run. `complete_tokens` are the tokens of the complete results, `call_tokens` the tokens of these results' calls,
 * and `text_tokens` the tokens of texts. `results` has all results, or the page that the request asked for.
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
 * A branch's own messages, which follow the first `fork_position` messages of the branch `parent`. `messages` ends before the
 * first message that cannot be read. `timestamps` are seconds since 1970. `calls` has the record of each model call
 * (`contextrender_bridge.engine.call.call_record`). The `position` of a record is the position of the call's answer, or the position
 * that the answer will have.
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

/**
 * A tool call of a message.
 *
 * `text` is the beginning of the call's arguments. `text_complete` is true if `text` has all
 * arguments. `result` is the position of the call's result, or None. `in_prompt` is true if the
 * prompt has the call.
 */
export interface CallLine {
  name: string;
  tokens: number;
  text: string;
  text_complete: boolean;
  result: number | null;
  in_prompt: boolean;
}

/**
 * One message before a model call.
 *
 * `display` is "complete", "excerpt", "compaction" or "omitted". `text` is the beginning of the
 * text in the prompt, or of the recorded text if the message is omitted. `text_complete` is true
 * if that text is not longer.
 */
export interface MessageLine {
  position: number;
  role: string;
  name: string;
  turn: number;
  tokens: number;
  display: string;
  unbudgeted: boolean;
  text: string;
  text_complete: boolean;
  calls: CallLine[];
}

/**
 * The prices of one model in dollars per token, by kind of token.
 *
 * `per_call` is the dollars of each call beside its tokens, such as those of its web searches.
 */
export interface Price {
  uncached: number;
  cache_read: number;
  cache_write: number;
  cache_write_1h: number;
  output: number;
  per_call: number;
}

/**
 * One model call: why its prompt shows or omits each result, and the history before it. The history has `history_messages`
 * messages. `messages` has all messages of the history, or the ones that the request asked for. `turn_count` is the number of the
 * branch's last call.
 * `price` is the price of the call's model, None if it has none. `prompt` has the prompt's messages as a client sends them, if the
 * request asked for them.
 */
export interface CallView {
  explain: ExplainView;
  turn_count: number;
  history_messages: number;
  messages: MessageLine[];
  price: Price | null;
  prompt: Record<string, unknown>[] | null;
}

/**
 * A field of a node. `text` is the beginning of its value, and `length` is the length of the whole value, in characters or bytes.
 */
export interface FieldView {
  name: string;
  kind: string;
  text: string;
  length: number;
}

/** The number of a node's edges of one type and direction. */
export interface DegreeView {
  kind: string;
  outgoing: boolean;
  count: number;
}

/**
 * An edge of a node. `id` and `label` are the id and the label of the node at the other end, and `end` is the name of that node's
 * type. `values` are the first values of a Reuse edge.
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
 * A node. `degrees` is empty for a root. `next` is the `start` of the next page of edges, None at the end.
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
 * A measure's means in rendered and in holdout sessions, and the ratio of the means.
 *
 * `low` and `high` are the 95% confidence interval of the ratio, by a bootstrap over sessions. The
 * ratio and its interval are None if a group has too few sessions, or if the holdout's mean is 0.
 */
export interface Ratio {
  measure: string;
  rendered: number;
  holdout: number;
  ratio: number | null;
  low: number | null;
  high: number | null;
}

/**
 * The comparison of the sessions since the first holdout session, which began at `since`. `rendered` and `holdout` count the
 * compared sessions of each group. `sessions_without_usage` sessions have no provider usage, or were only observed.
 */
export interface HoldoutView {
  summary: string;
  since: number | null;
  rendered: number;
  holdout: number;
  sessions_without_usage: number;
  measures: Ratio[];
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
 * The totals of a session's answered calls, as they were counted with each call. `calls` is 0 if the session was only recorded, or
 * if no call has an answer yet. `full` are the prompt tokens with the full history, which counts at most the model's window, and
 * `prompt` are the tokens that were sent. `results_used` counts the uses, each a pair of an answer and a result, and
 * `results_used_visible` counts the uses of complete results. `steps` are the calls whose answer used an earlier result,
 * `steps_with_misses` are the steps that missed a value, and `misses` counts every miss. `models` are the models of the calls, or
 * the session's own model if the calls name none. `cost` is what the provider bills, and `full_cost` an estimate of the
 * bill with the full history, in dollars, None if no call's model has a price. If the provider did not report the usage of every
 * call, `cost` is an estimate, too, and `is_estimate` is true.
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
  full_cost: number | null;
  is_estimate: boolean;
}

/**
 * A session. `about` is the user's first words and, if the history names it, the agent's folder; it is empty except in lists.
 * `damage` says which part the store has lost, as far as that is known. `client` is the program that made the newest counted calls.
 * `tools` maps each tool to its number of calls.
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
 * The results and the declaration of one tool, with their tokens and costs.
 *
 * - `results` counts the results. `tokens` are the tokens of all results, and `dollars` is the
 *   cost of these tokens in the full history.
 * - `reused` counts the results that a later answer used. `unused_tokens` are the tokens of the
 *   other results. `excess_tokens` are the part of `unused_tokens` beyond the first `FLOOD_TOKENS`
 *   tokens of each result, and `excess_dollars` is the cost of this part.
 * - `declared` are the tokens of the declaration, and `declared_dollars` is its cost.
 * - The largest result has `largest` tokens, and is of turn `largest_turn` of the session
 *   `largest_session`.
 *
 * Costs are None without a price.
 */
export interface ToolCost {
  name: string;
  results: number;
  tokens: number;
  reused: number;
  declared: number;
  unused_tokens: number;
  largest: number;
  largest_turn: number;
  largest_session: string;
  dollars: number | null;
  declared_dollars: number | null;
  excess_tokens: number;
  excess_dollars: number | null;
}

/**
 * The shape of a session, without contents. `tools` are the tools of the branch that was asked for, and `uses` is the number of
 * the branch's uses of results.
 */
export interface InspectView {
  session: SessionView;
  head: number;
  settings: Record<string, unknown>;
  branches: BranchView[];
  tools: ToolCost[];
  uses: number;
}

/**
 * A share link. Its URL is the server's address and `path`. Anyone who has the URL can read the session. Times are seconds since
 * 1970.
 */
export interface LinkView {
  session: string;
  id: string;
  label: string;
  created_at: number;
  expires_at: number;
  path: string;
}

/** The valid share links of a session, the newest first. */
export interface LinksView {
  session: string;
  links: LinkView[];
}

/**
 * A page of sessions, the newest first. `next` is the cursor of the next page, None at the end.
 */
export interface SessionPage {
  sessions: SessionView[];
  next: string | null;
}

/**
 * A result that the answer of `turn` used but that was not complete in the prompt. `values` are the values that the answer used
 * and that were not visible, the rarest first. `source_messages` has, for each value, the position of the first earlier user or
 * system message with the value, -1 if there is none. `repeated` is true if the agent called the tool again. `names_only` is true
 * if all values are names of tools or fields, which an agent knows without the result. `cost` is the tokens that showing the result
 * would have taken. `reason`, `remaining_tokens` and `selected_count` are as in `explain`.
 */
export interface MissView {
  turn: number;
  result: number;
  position: number;
  name: string;
  values: string[];
  source_messages: number[];
  repeated: boolean;
  names_only: boolean;
  display: string;
  cost: number;
  reason: string;
  remaining_tokens: number | null;
  selected_count: number | null;
}

/**
 * The misses of `turns` calls of a branch, in order. `next` is the turn at which the next page starts, None at the end.
 * `old_versions` counts the uses of lines that an earlier edit had replaced.
 */
export interface MissesView {
  session: string;
  branch: number;
  turn_count: number;
  turns: number;
  old_versions: number;
  misses: MissView[];
  next: number | null;
}

/**
 * The tool results of a range of calls, from result number `offset` on. `names` has, for each result, the index in `tools` of its
 * tool's name.
 */
export interface ResultColumns {
  offset: number;
  tools: string[];
  names: number[];
  positions: number[];
  turns: number[];
  tokens: number[];
}

/** The provider's usage of one call, in tokens. */
export interface CallUsage {
  uncached: number;
  cache_read: number;
  cache_write: number;
  cache_write_1h: number;
  output: number;
}

/**
 * One model call. `results` counts the results before it.
 *
 * `tokens_before` and `tokens_after` count the history before and after rendering, `tokens_unbudgeted` the tokens that the budget
 * does not include, and `text_tokens` the texts. `complete` and `substitutes` are runs of result numbers, as in `explain`. `uses`
 * are the results that the answer used, and `misses` the results that it missed (docs/method.md, Misses). `old_versions` are the
 * results of which the answer used lines that an earlier edit had replaced. If the call was not `recorded`, all of these are
 * recomputed by today's rules. `delivery` is "rendered", "full" or "holdout". `budget` is the call's own budget, in tokens.
 * `faulted` is true if the answer before used a value that its prompt did not have. An automatic budget then grows.
 * `first_byte_ms` and `reply_ms` are the milliseconds until the first and the last byte of the provider's reply, `status` is the
 * reply's HTTP status, and `error` is the provider's code of a failure. They are 0 and empty if unknown.
 */
export interface TurnView {
  turn: number;
  results: number;
  tokens_before: number;
  tokens_after: number;
  tokens_unbudgeted: number;
  text_tokens: number;
  complete: number[];
  substitutes: number[];
  uses: number[];
  misses: number[];
  old_versions: number[];
  recorded: boolean;
  delivery: string;
  model: string;
  usage: CallUsage | null;
  budget: number;
  faulted: boolean;
  first_byte_ms: number;
  reply_ms: number;
  status: number;
  error: string;
}

/**
 * A range of a branch's calls. `next` is the turn at which the next page starts, None at the end. `awaits_answer` is true if the
 * newest call has no answer yet.
 */
export interface TimelineView {
  session: string;
  branch: number;
  turn_count: number;
  awaits_answer: boolean;
  budget: number | string;
  policy: string;
  policies: string[];
  results: ResultColumns;
  turns: TurnView[];
  next: number | null;
}

/**
 * A session of an uploaded file. `data` is for `import_session`. `hidden_summaries` counts the compactions whose summary is not in
 * the file as text; `compactions` does not include them.
 */
export interface OpenedView {
  session: string;
  source: string;
  model: string;
  about: string;
  summary: string;
  turns: number;
  compactions: number;
  hidden_summaries: number;
  losses: LossView[];
  data: Record<string, unknown>;
}

/**
 * The sessions of an uploaded file. `unreadable` has a sentence for each part that could not be read.
 */
export interface OpenedFileView {
  sessions: OpenedView[];
  unreadable: string[];
}

/**
 * The newest sessions of an agent on the server's machine. `agents` are the agents whose sessions can be read. `agents` is empty
 * unless the machine is the caller's own.
 */
export interface LocalSessionsView {
  agents: string[];
  sessions: OpenedView[];
  unreadable: string[];
}

/**
 * An operation in the reuse graph: a message's text, or a tool call. `event` is its number among the branch's events.
 */
export interface OperationView {
  event: number;
  position: number;
  turn: number;
  name: string;
}

/** A value of a result, with the operations that used it. */
export interface UsedValue {
  value: string;
  uses: OperationView[];
}

/** A tool call of a message: the tool's name, and the arguments as the agent wrote them. */
export interface CallTextView {
  name: string;
  arguments: string;
}

/**
 * An earlier result that a message or one of its calls used, with the values used. If the message used lines that an edit had
 * replaced, `edited_at` is the turn of the first edit of the file after the result, otherwise None.
 */
export interface UsedResult {
  position: number;
  name: string;
  values: string[];
  edited_at: number | null;
}

/**
 * A part of one message's text, from character `start` on. `length` is the length of the whole text. For a tool result, `arguments`
 * and `used_values` are set; for any other message, `calls` and `results_used`.
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
  used_values: UsedValue[];
  calls: CallTextView[];
  results_used: UsedResult[];
}

/**
 * A complete tool result with its tool call. `position` is the number of its message on `branch`. `score` is None without a query.
 * `superseded_by` is the position of the result of the next call that read, edited or wrote the same file, None if there is none.
 */
export interface RecalledView {
  branch: number;
  position: number;
  turn: number;
  name: string;
  arguments: string;
  tokens: number;
  score: number | null;
  superseded_by: number | null;
  message: Record<string, unknown>;
}

/** The recalled results. With a query, the best result comes first. */
export interface RecallView {
  session: string;
  results: RecalledView[];
}

/** The reply of `record_usage`. `recorded` is false if the call is unknown. */
export interface RecordedUsageView {
  session: string;
  branch: number;
  recorded: boolean;
}

/** A text shown instead of a result's own text. `kind` is "excerpt" or "compaction". */
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
 * One message of a prompt.
 *
 * `message` is its position, and `calls` are the numbers of its tool calls that the prompt has.
 * `text` replaces the message's own text, unless it is None. If the prompt cuts the arguments of a
 * call, `arguments` has, for each of `calls`, the text that replaces its arguments, or None. A
 * client makes the prompt from its own copy of the messages and this plan.
 */
export interface PlannedMessage {
  message: number;
  calls: number[];
  text: string | null;
  arguments: (string | null)[] | null;
}

/**
 * The prompt of one model call. `complete` and `omitted` are the positions of tool results, and `truncated_messages` are the
 * positions of messages whose text or calls are cut. `tokens_before` and `tokens_after` count the history before and after
 * rendering. `tokens_unbudgeted` counts the system prompt and the current user message, which the budget does not include.
 * The next prompt usually is the same up to the positions in `breakpoints`, so each is a good place for a cache breakpoint.
 * `pinned` lists the results of `pinned_tools` and `pinned_calls`. The reply has either `messages` or `plan`, as the request's
 * `output` says.
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

/** A user or system message that contains values which an operation used later. */
export interface SourceView {
  position: number;
  turn: number;
  role: string;
}

/**
 * A reuse edge: the `operation` used `count` values of the result number `result`. `values` has the first of these values.
 * `source_messages` has, for each of `values`, the position of the first earlier user or system message with the value, -1 if there
 * is none. Values without such a message come first.
 */
export interface ReuseView {
  operation: number;
  result: number;
  count: number;
  values: string[];
  source_messages: number[];
}

/**
 * The results of a branch and the operations that used them. `calls` has, for each result, the event number of its tool call, -1
 * if there is none. `messages` are the user and system messages that contained a value before an operation used it.
 */
export interface GraphView {
  session: string;
  branch: number;
  turn_count: number;
  results: ResultColumns;
  calls: number[];
  messages: SourceView[];
  operations: OperationView[];
  edges: ReuseView[];
}

/**
 * The figures of a policy at every call. `prompt` and `full` are the call's prompt tokens with the policy and with the full
 * history. `cost` and `full_cost` are the dollars of the call and of all calls before it.
 */
export interface SavingsColumns {
  prompt: number[];
  full: number[];
  cost: number[];
  full_cost: number[];
}

/**
 * The savings of a session so far. `complete` is false while calls remain to recompute: ask again.
 */
export interface SavingsView {
  session: string;
  branch: number;
  complete: boolean;
  totals: PolicyView;
  columns: SavingsColumns | null;
}

/**
 * An event that contains the query, with the text before and after the first occurrence (`match`).
 *
 * `kind` is "result", "call" or the role of a message. `position` is the position of the event's message on `branch`. `turn` is the
 * model call that wrote the event, or the next model call after a message or result. `count` is the number of occurrences in the
 * event, at most 1,000. `start` is the offset of the first occurrence in the event's text, in characters. `failed` is true if the
 * event is a result that looks like an error.
 */
export interface MatchView {
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
  text_before: string;
  match: string;
  text_after: string;
}

/**
 * A page of matches, the newest first. For it, `sessions` sessions and `events` events were searched. `next` is the cursor of the
 * next page, None at the end. A page may be empty before the end.
 */
export interface SearchView {
  matches: MatchView[];
  sessions: number;
  events: number;
  next: string | null;
}

/**
 * The costs of tools, added up over `sessions` sessions, the most expensive tool first. `advice` has sentences on tools with
 * large unused results and on tools that are never called.
 */
export interface ToolsView {
  sessions: number;
  tools: ToolCost[];
  advice: string[];
}

/**
 * The answered calls of one day, client, model, policy and delivery (docs/method.md, What a call was shown).
 *
 * `over_budget` counts the calls whose history was larger than the budget. The other counts are tokens and results:
 * - `full` are the prompt tokens with the full history. `full_capped` counts at most the model's window of each history, and
 *   `full_capped_cached` are the tokens of `full_capped` that the previous prompt had, too.
 * - `prompt` are the tokens that were sent, `cached` the ones of them that the previous prompt had, too. `output` are the tokens that
 *   the model wrote.
 * - `results_used` counts the uses, each a pair of an answer and a result. `results_used_visible` counts the uses of complete results.
 * - `steps` are the calls whose answer used an earlier result. `steps_with_misses` are the steps that missed a value, and `misses`
 *   counts every missed result.
 *
 * `cost` is what the provider bills, and `full_cost` an estimate of the bill with the full history, in dollars, None without a price.
 * If not all calls are `calls_with_usage`, `cost` is an estimate, too, and `is_estimate` is true. `price_source` is the model whose
 * price was used if the model has none.
 */
export interface SavedRow {
  day: string;
  client: string;
  model: string;
  policy: string;
  delivery: string;
  calls: number;
  over_budget: number;
  full: number;
  full_capped: number;
  full_capped_cached: number;
  prompt: number;
  cached: number;
  output: number;
  results_used: number;
  results_used_visible: number;
  steps: number;
  steps_with_misses: number;
  misses: number;
  calls_with_usage: number;
  cost: number | null;
  full_cost: number | null;
  is_estimate: boolean;
  price_source: string;
}

/**
 * The savings of all sessions so far. Only `sessions_counted` of the `sessions` have counted calls.
 */
export interface TotalSavingsView {
  sessions: number;
  sessions_counted: number;
  rows: SavedRow[];
}

/**
 * A value: the first result that contains it, all results that contain it (`holders`), and all its uses.
 */
export interface ValueTraceView {
  session: string;
  value: string;
  first_result: number;
  holders: number[];
  uses: OperationView[];
}
