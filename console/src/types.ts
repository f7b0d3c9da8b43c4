/** The replies of the service. Made by make_replies.py: change it there. What each means is said in views/. Long because it has all. */

import type { ExplainView } from "../../clients/typescript/src/replies";

export type * from "../../clients/typescript/src/replies";

export interface PolicyView {
  policy: string;
  budget: number | string;
  turns: number;
  turn_count: number;
  prompt: number;
  full: number;
  cached: number;
  output: number;
  results_used: number;
  results_used_visible: number;
  recall: number | null;
  steps: number;
  steps_with_misses: number;
  misses: number;
  cost: number | null;
  full_cost: number | null;
  calls_without_price: number;
  price_source: Record<string, string>;
}

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

export interface DiagnosisView {
  session: string;
  summary: string;
  turns: number;
  compactions: number;
  losses: LossView[];
}

export interface CallLine {
  name: string;
  tokens: number;
  text: string;
  text_complete: boolean;
  result: number | null;
  in_prompt: boolean;
}

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

export interface CallView {
  explain: ExplainView;
  parameters: Record<string, number>;
  turn_count: number;
  history_messages: number;
  prompt_messages: number;
  messages: MessageLine[];
  prompt: Record<string, unknown>[] | null;
}

export interface FieldView {
  name: string;
  kind: string;
  text: string;
  length: number;
}

export interface DegreeView {
  kind: string;
  outgoing: boolean;
  count: number;
}

export interface EdgeView {
  kind: string;
  outgoing: boolean;
  id: string;
  end: string;
  label: string;
  values: string[];
}

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

export interface LinkView {
  session: string;
  id: string;
  label: string;
  created_at: number;
  expires_at: number;
  path: string;
}

export interface LinksView {
  session: string;
  links: LinkView[];
}

export interface MissView {
  turn: number;
  result: number;
  position: number;
  name: string;
  values: string[];
  repeated: boolean;
  names_only: boolean;
  display: string;
  cost: number;
  reason: string;
  remaining_tokens: number | null;
  selected_count: number | null;
}

export interface MissesView {
  session: string;
  branch: number;
  turn_count: number;
  turns: number;
  misses: MissView[];
  next: number | null;
}

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

export interface OpenedFileView {
  sessions: OpenedView[];
  unreadable: string[];
}

export interface OperationView {
  event: number;
  position: number;
  turn: number;
  name: string;
}

export interface UsedValue {
  value: string;
  uses: OperationView[];
}

export interface CallTextView {
  name: string;
  arguments: string;
}

export interface UsedResult {
  position: number;
  name: string;
  values: string[];
}

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

export interface AdvisedView {
  policy: string;
  budget: number | string;
  cost: number | null;
  miss_rate: number | null;
  dollars: number;
  full_dollars: number;
}

export interface AdviceView {
  session: string;
  branch: number;
  calls: number;
  turn_count: number;
  summary: string;
  rule: string;
  best: AdvisedView | null;
  options: AdvisedView[];
}

export interface AllAdviceView {
  sessions: number;
  replayed_sessions: number;
  calls: number;
  replayed_calls: number;
  complete: boolean;
  summary: string;
  rule: string;
  best: AdvisedView | null;
  options: AdvisedView[];
}

export interface ResultColumns {
  offset: number;
  tools: string[];
  names: number[];
  positions: number[];
  turns: number[];
  tokens: number[];
}

export interface ReuseView {
  operation: number;
  result: number;
  count: number;
  values: string[];
}

export interface GraphView {
  session: string;
  branch: number;
  turn_count: number;
  results: ResultColumns;
  calls: number[];
  files: string[];
  file_of: number[];
  operations: OperationView[];
  edges: ReuseView[];
}

export interface SavingsColumns {
  prompt: number[];
  full: number[];
  cost: number[];
  full_cost: number[];
  results_used: number[];
  results_used_visible: number[];
}

export interface SavingsView {
  session: string;
  branch: number;
  complete: boolean;
  totals: PolicyView;
  columns: SavingsColumns | null;
}

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

export interface SearchView {
  matches: MatchView[];
  sessions: number;
  events: number;
  next: string | null;
}

export interface CallUsage {
  uncached: number;
  cache_read: number;
  cache_write: number;
  cache_write_1h: number;
  output: number;
}

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
  needed: number[];
  results_used_visible: number;
  misses: number[];
  recorded: boolean;
  delivery: string;
  model: string;
  usage: CallUsage | null;
  budget: number;
  faulted: boolean;
}

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

export interface TotalSavingsView {
  sessions: number;
  sessions_counted: number;
  rows: SavedRow[];
}

export interface ValueTraceView {
  session: string;
  value: string;
  first_result: number;
  holders: number[];
  uses: OperationView[];
}
