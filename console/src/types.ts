// What the walkers report: the files of views/. Long because it lists every shape; a test compares
// them with those that are served.

export interface SessionView {
  session: string;
  created_at: number;
  updated_at: number;
  branches: number;
  messages: number;
  turns: number;
  results: number;
  tokens: number;
}

export interface SessionPage {
  sessions: SessionView[];
  next: string | null;
}

export interface BranchView {
  number: number;
  parent: number;
  fork: number;
  messages: number;
  turns: number;
  results: number;
  tokens: number;
}

export interface ToolView {
  name: string;
  results: number;
  tokens: number;
  reused: number;
}

export interface InspectView {
  session: SessionView;
  head: number;
  settings: Record<string, unknown>;
  lines: BranchView[];
  tools: ToolView[];
  uses: number;
  embedded: number;
  damaged: string;
}

export interface ResultColumns {
  first: number;
  tools: string[];
  names: number[];
  positions: number[];
  turns: number[];
  tokens: number[];
}

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
  differs: boolean;
  sent: string;
  model: string;
  billed: number[] | null;
}

export interface TimelineView {
  session: string;
  branch: number;
  last: number;
  waiting: boolean;
  budget: number;
  policy: string;
  policies: string[];
  results: ResultColumns;
  turns: TurnView[];
  next: number | null;
}

export interface CostView {
  paper: number;
  prefix: number;
}

export interface PolicyView {
  policy: string;
  budget: number;
  turns: number;
  last: number;
  over_budget: boolean;
  prompt: number;
  full: number;
  cached: number;
  output: number;
  embedded: number;
  events: number;
  seen: number;
  recall: number | null;
  cost: CostView;
  full_cost: CostView;
}

export interface SavingsColumns {
  prompt: number[];
  full: number[];
  paper: number[];
  paper_full: number[];
  prefix: number[];
  prefix_full: number[];
  events: number[];
  seen: number[];
}

export interface SavingsView {
  session: string;
  branch: number;
  complete: boolean;
  totals: PolicyView;
  columns: SavingsColumns | null;
}

export interface CompareView {
  session: string;
  branch: number;
  complete: boolean;
  policies: PolicyView[];
}

export interface ValueView {
  value: string;
  results: number;
}

export interface UseView {
  turn: number;
  position: number;
  name: string;
  values: ValueView[];
}

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
  uses: UseView[];
}

export interface TokenView {
  before: number;
  after: number;
  outside: number;
}

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
  left_turns: number[];
  warnings: string[];
  results: ResultView[];
}

export interface CallLine {
  name: string;
  tokens: number;
  text: string;
  whole: boolean;
  result: number | null;
  shown: boolean;
}

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

export interface CallView {
  explain: ExplainView;
  parameters: Record<string, number>;
  last: number;
  messages: MessageLine[];
}

export interface OperationView {
  event: number;
  position: number;
  turn: number;
  name: string;
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
  last: number;
  results: ResultColumns;
  operations: OperationView[];
  edges: ReuseView[];
}

export interface ValueTraceView {
  session: string;
  value: string;
  first: number;
  holders: number[];
  uses: OperationView[];
}

export interface UsedValue {
  value: string;
  uses: OperationView[];
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
  used: UsedValue[];
}

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

export interface RecallView {
  session: string;
  results: RecalledView[];
}

export interface MissView {
  turn: number;
  result: number;
  position: number;
  name: string;
  values: string[];
  again: boolean;
  shown: string;
  cost: number;
  reason: string;
  left: number | null;
  after: number | null;
}

export interface MissesView {
  session: string;
  branch: number;
  last: number;
  turns: number;
  misses: MissView[];
  next: number | null;
}

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
}

export interface TotalSavingsView {
  sessions: number;
  counted: number;
  rows: SavedRow[];
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
