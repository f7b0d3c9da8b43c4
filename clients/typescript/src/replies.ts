/** The replies of the service. Made by make_replies.py: change it there. Long because it has all. */

/**
 * The text that replaces a history at a compaction. `tokens` is its size, `tokens_before` that of the history. Of the
 * `results`, it shows `complete` ones in full and `excerpts` as excerpts; these are counts. `branch` has `offset` messages,
 * whose digest is `digest`.
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
 * The figures of a policy over the answered calls up to `turns` of `turn_count`. `prompt` and `full` are the prompt tokens with
 * it and with the full history, at most the model's window; `cached` is what the previous prompt had of them. `recall_events`
 * counts the events of the paper's recall (docs/evaluation.md), `recall_events_complete` those whose result was complete, and
 * `recall` is their quotient. Of the `steps`, the calls whose answer used an earlier result, `steps_with_misses` missed a
 * value. `cost` and `full_cost` are dollars at the models' prices, None if no call has one. They do not include
 * `calls_without_price`. `price_source` maps models without a price of their own to the model whose price was used.
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
 * The same session under several settings, over its first `turns` answered calls of `turn_count`. `current_option` is the index
 * in `options` of the setting in use, `best_option` that of the recommended one, None for the full history. `summary` says
 * which to use.
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
 * A loss through a compaction: the answer of `turn` used `values` that its prompt no longer had, or asked for them again, as
 * `kind` says. The tool `call` had returned them before turn `read_turn`, and they were dropped after turn `dropped_turn`.
 * If the agent fetched them again at turn `repeated_turn`, that took `tokens` and `dollars`.
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
 * The reason why a prompt shows or omits one result. `age`, `reuse` (c), `relevance` (s), `usefulness` (U) and `score` are
 * the policy's figures (docs/method.md); `cost` is the tokens of the result with its call. `order` is its place among the
 * selected results, else `reason` says why it was omitted. If it did not fit, `remaining_tokens` were left after
 * `selected_count` results had been selected. `pinned` tells whether the caller pinned it. `edited_at` is the turn that first
 * edited its file since, None if none did: a shown result is then an old version.
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

/**
 * A tool call of a message.
 *
 * `text` is the beginning of its arguments, and `text_complete` is true if it is all of them.
 * `result` is the position of its result. `in_prompt` is true if the prompt has the call.
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
 * `display` is "complete", "excerpt", "compaction" or "omitted". `text` is the
 * beginning of the text in the prompt, or of the recorded text if the message is omitted.
 * `text_complete` is true if it is the complete text.
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

/** The price of a model in dollars per token, by kind of token. */
export interface PriceView {
  uncached: number;
  cache_read: number;
  cache_write: number;
  cache_write_1h: number;
  output: number;
}

/**
 * One model call: why its prompt shows or omits each result, and the history before it. The history has `history_messages`
 * messages, of which the prompt has `prompt_messages`. `messages` has all of them, or those that the request asked for.
 * `parameters` are the method's parameters for the call, `turn_count` is the number of the branch's last call. `prompt` has
 * the messages as they were sent, if the request asked for them. `price` is that of the call's model, None if it has none.
 */
export interface CallView {
  explain: ExplainView;
  parameters: Record<string, number>;
  turn_count: number;
  history_messages: number;
  prompt_messages: number;
  messages: MessageLine[];
  price: PriceView | null;
  prompt: Record<string, unknown>[] | null;
}

/**
 * A field of a node. `text` is the beginning of its value, `length` that of the whole, in characters or bytes.
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
 * An edge of a node. `id` and `label` are those of the other node, and `end` is the name of its type. `values` are the first
 * values of a Reuse edge.
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
 * A measure's means in rendered and in holdout sessions, and their ratio.
 *
 * `low` and `high` are the 95% confidence interval of the ratio, by a bootstrap over sessions. If
 * a group has too few sessions, the ratio and its interval are None.
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
 * The comparison of the sessions since the first holdout session `since`: `rendered` and `holdout` count the sessions of each
 * group. `sessions_without_usage` have no provider usage, or were only observed.
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
 * The totals of a session's answered calls, as they were counted with each call. `full` is the prompt tokens with the full
 * history, at most the model's window, and `prompt` those that were sent. `results_used` counts the uses, a pair of an answer
 * and a result each, `results_used_visible` those of complete results. `steps` are the calls whose answer used an earlier
 * result, `steps_with_misses` those of them that missed a value; `misses` counts every miss. `models` are the models of the
 * calls, or the session's own if there are none. `cost` is in dollars, None if no call's model has a price; it `is_estimate` if the
 * provider did not report the usage of every call. `calls` is 0 if the session was only recorded, or no call has an answer
 * yet.
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
 * The results and the declaration of one tool, with their tokens and costs.
 *
 * `tokens` counts all `results`. `reused` results were used by a later answer; the others have
 * `unused_tokens`. `declared` is the tokens of the declaration. `dollars` is the cost of the
 * results in the full history, `declared_dollars` the cost of the declaration; both are None
 * without a price. The result with the most tokens, `largest`, is of turn `largest_turn` of the
 * session `largest_session`. `excess_tokens` are the tokens beyond `FLOOD_TOKENS` of the unused
 * results, `excess_dollars` their cost.
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
 * The shape of a session, without contents. `tools` are those of the branch that was asked for, `uses` the number of its
 * uses of results, `embedded_results` the number of its results with a stored vector.
 */
export interface InspectView {
  session: SessionView;
  head: number;
  settings: Record<string, unknown>;
  branches: BranchView[];
  tools: ToolCost[];
  uses: number;
  embedded_results: number;
}

/**
 * A share link. `path` follows the server's address; anyone who has it can read the session. Times are seconds since 1970.
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
 * A result that the answer of `turn` used but that was not complete in the prompt. `values` are the values that it used
 * and that were not visible, the rarest first. `source_messages` has for each value the position of the first earlier user or system
 * message with it, -1 if there is none. `repeated` tells whether the agent called the tool again instead. With
 * `names_only` the values are only names of tools or fields, which an agent knows without the result. `cost` is the
 * tokens that showing it would have taken; `reason`, `remaining_tokens` and `selected_count` are as in `explain`.
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
 * The misses of a range of a branch's calls, in order. `next` is the turn at which the next page starts, None at the end.
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
 * A session of an uploaded file. `data` is for `import_session`. `hidden_summaries` counts further compactions, whose summary
 * is not in the file as text.
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

/** The sessions of an uploaded file. `unreadable` says what could not be read. */
export interface OpenedFileView {
  sessions: OpenedView[];
  unreadable: string[];
}

/**
 * The newest sessions of an agent on the server's machine. `agents` are the agents whose sessions can be read. They are none
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
 * An earlier result that a message or one of its calls used, with the values that it used. If it used lines that an edit had
 * replaced, `edited_at` is the turn of the first edit of the file since the result, otherwise None.
 */
export interface UsedResult {
  position: number;
  name: string;
  values: string[];
  edited_at: number | null;
}

/**
 * A part of one message's text, from character `start` on; `length` is that of the whole text. A tool result has `arguments`
 * and `used_values`, any other message `calls` and `results_used`.
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
 * A complete tool result with its tool call. `position` counts messages on `branch`. `score` is None without a query. `superseded_by`
 * is the position of the result of the next call that read, edited or wrote the same file, None if there is none.
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

/** The recalled results. With a query the best comes first. */
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

/** A text shown instead of a result's own. `kind` is "excerpt" or "compaction". */
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

/**
 * The tool results of a range of calls, from result number `offset` on. `names` are indices into `tools`.
 */
export interface ResultColumns {
  offset: number;
  tools: string[];
  names: number[];
  positions: number[];
  turns: number[];
  tokens: number[];
}

/** A user or system message that said values before they were used. */
export interface SourceView {
  position: number;
  turn: number;
  role: string;
}

/**
 * A reuse edge: the `operation` used `count` values of the result number `result`. `values` has the first of them.
 * `source_messages` has for each of these the position of the first earlier user or system message with the value, -1 if there
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
 * The results of a branch and the operations that used them. `calls` has for each result the event number of its tool call,
 * -1 if there is none. `messages` are the user and system messages that said used values.
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
 * The figures of a policy at every call. `prompt` and `full` are the prompt tokens with it and with the full history. `cost` and
 * `full_cost` are dollars, each with all calls before.
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
 * `kind` is "result", "call" or the role of a message. `position` is the event's message on `branch`. `turn` is the model
 * call that wrote the event, or the next one after a message or result. `count` is the number of occurrences in the
 * event, at most 1,000. `start` is the first occurrence's offset in the event's text, in characters. `failed` is true if
 * the event is a result that looks like an error.
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
 * A page of matches, the newest first. It searched `sessions` sessions and `events` events. `next` is the cursor of the next
 * page, None at the end. A page may be empty before the end.
 */
export interface SearchView {
  matches: MatchView[];
  sessions: number;
  events: number;
  next: string | null;
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
 * `tokens_before` and `tokens_after` count the history before and after rendering, `tokens_unbudgeted` what the budget
 * does not include, `text_tokens` the text. `complete` and `substitutes` are runs of result numbers: first, length, first,
 * length. `uses` are the results that the answer used, `misses` those that it missed (docs/method.md, Misses).
 * `old_versions` are the results of which the answer used lines that an earlier edit had replaced. If the call was not
 * `recorded`, all of this is recomputed by today's rules. `delivery` is "rendered", "full" or "holdout". `budget` is the
 * call's own, in tokens. `faulted` is true if an automatic budget grew because the answer before used a value that its
 * prompt did not have. `first_byte_ms` and `reply_ms` are the milliseconds until the first and the last byte of the
 * provider's reply, `status` is its HTTP status, and `error` the provider's code of a failure. They are 0 and empty if unknown.
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
 * A range of a branch's calls. `next` is the turn at which the next page starts, None at the end. `awaits_answer` tells
 * whether the newest call has no answer yet.
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
 * `over_budget` counts the calls whose history was larger than the budget. `full` is the prompt tokens with the full
 * history, `full_capped` the same at most the model's window, `full_capped_cached` what the previous prompt had of those.
 * `prompt` and `cached` are what was sent and what the previous prompt had of it; `output` is what the model wrote.
 * `results_used` counts the uses, a pair of an answer and a result each, `results_used_visible` those of complete results.
 * `steps` are the calls whose answer used an earlier result, `steps_with_misses` those of them that missed a value, and
 * `misses` counts every missed result. `cost` and `full_cost` are dollars, None without a price; `price_source` is the
 * model whose price was used if the model has none. For the `calls_with_usage`, `usage_cost` is the cost by the provider's
 * counts, `full_usage_cost` an estimate of the same with the full history.
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
  usage_cost: number | null;
  full_usage_cost: number | null;
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
