/** The replies of the service. Made by make_replies.py: change it there. */

/** Tokens within the budget's rule, before and after rendering, and those outside it. */
export interface TokenView {
  before: number;
  after: number;
  outside: number;
}

/** Tokens of the service's own model calls and embeddings for one rendering. */
export interface UsageView {
  model_tokens_in: number;
  model_tokens_out: number;
  embedding_tokens: number;
}

/** A text that stands in for a result: an excerpt, a compaction or a summary. */
export interface ReplacedView {
  position: number;
  kind: string;
  tokens: number;
  text: string;
}

/**
 * One message of a plan: which of its calls stay, and a text in place of its own.
 *
 * `arguments` has for each call that stays those in place of its own, where any are.
 */
export interface ShownView {
  message: number;
  calls: number[];
  text: string | null;
  arguments: (string | null)[] | null;
}

/** A result that `keep_tools` or `keep` asks for, and how it is shown, or `omitted`. */
export interface KeptView {
  position: number;
  shown: string;
}

/** The reply of `render`: `messages` or `plan`, as wanted; the other is None. */
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
  left_turns: number[];
  shortened: number[];
  breakpoints: number[];
  kept: KeptView[];
  warnings: string[];
  usage: UsageView;
  messages: Record<string, unknown>[] | null;
  plan: ShownView[] | null;
}

/** The reply of `sync` and `import_session`: what is recorded now. */
export interface SyncView {
  session: string;
  branch: number;
  turn: number;
  offset: number;
  digest: string;
  recorded: number;
}

/** A value, and how many results hold it. */
export interface ValueView {
  value: string;
  results: number;
}

/** An operation that drew on a result. */
export interface UseView {
  turn: number;
  position: number;
  name: string;
  values: ValueView[];
}

/** Why one result was shown or not. */
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

/** The reply of `explain`: one model call, as it was `noted` when it was made, if it was. */
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
  count: number;
  complete: number[];
  replaced: number[];
  whole_tokens: number | null;
  call_tokens: number | null;
  results: ResultView[];
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

/** The reply of `recall`: best first when there was a query. */
export interface RecallView {
  session: string;
  results: RecalledView[];
}

/** What a session's answered calls came to, in prompt tokens and in results drawn on. */
export interface CountedView {
  calls: number;
  full: number;
  prompt: number;
  drawn: number;
  seen: number;
}

/**
 * A session in a list.
 *
 * `about` is the agent's folder, where it tells it, and the user's first words; `client` the
 * program that made the last calls that were counted.
 */
export interface SessionView {
  session: string;
  about: string;
  client: string;
  created_at: number;
  updated_at: number;
  branches: number;
  messages: number;
  turns: number;
  results: number;
  tokens: number;
  counted: CountedView;
}

/** The reply of `list_sessions`: newest first; `next` is the following page's cursor. */
export interface SessionPage {
  sessions: SessionView[];
  next: string | null;
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

/** How much one tool was used and how much its results were drawn on. */
export interface ToolView {
  name: string;
  results: number;
  tokens: number;
  reused: number;
}

/** The reply of `inspect_session`. */
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

/** A message that is whole, behind one that the store lost. */
export interface BeyondHole {
  position: number;
  timestamp: number;
  message: Record<string, unknown>;
}

/** A branch's own messages, when each was recorded, and what its calls were shown. */
export interface ExportedBranch {
  number: number;
  parent: number;
  fork: number;
  messages: Record<string, unknown>[];
  timestamps: number[];
  calls: Record<string, unknown>[];
  beyond: BeyondHole[];
}

/** The reply of `export_session`. */
export interface ExportView {
  format: string;
  session: string;
  created_at: number;
  origin: number;
  settings: Record<string, unknown>;
  head: number;
  branches: ExportedBranch[];
  damaged: string;
}

/** The reply of `delete_session`. */
export interface DeleteView {
  session: string;
  nodes: number;
}
