/**
 * The client. Call `new ContextRender().fit(session, messages)` before each model call.
 *
 * It takes the whole history each time and sends only new messages.
 */

import { ChatTranscript, type AnyMessage, type ChatMessage, type Transcript } from "./chat.js";
import { Connection, type ConnectionOptions, type Fields } from "./connection.js";
import type { Credentials } from "./credentials.js";
import { HistoryDiverged, OtherConversation, reasonOf } from "./errors.js";
import {
  applyReply,
  DEADLINE,
  isInvalidSetting,
  type FitOptions,
  type FitResult,
  type Settings,
} from "./fitting.js";
import { linkFor, type Link } from "./http.js";
import type * as replies from "./replies.js";
import { HistoryCache, NOTHING_RECORDED, type RecordedPart } from "./history_cache.js";
import { nameOf, SessionNames } from "./session_names.js";

/** The address and the token default to the environment's, then to the local service's. */
export interface ClientOptions extends ConnectionOptions, Partial<Credentials> {
  /** Logs a line for each history that is sent unchanged after an error. */
  log?: (line: string) => void;
}

export interface RenderOptions extends Settings {
  /** "plan": the reply has a plan of the prompt instead of its messages. */
  output?: "messages" | "plan";
  /** True: answer before the new messages are on disk. If the write fails, the next call sends them again. */
  answer_before_commit?: boolean;
}

/** A branch of a session, by number. The default is the one written last. */
export interface BranchOptions {
  branch?: number;
}

/** The client. Each method returns the reply, or rejects with a `ContextRenderError`. */
export class ContextRender {
  readonly #connection: Connection;
  readonly #failures: Record<string, number> = {};
  /** The sessions for which the log already says that a history is above its budget. */
  readonly #warned = new Set<string>();
  readonly #log: (line: string) => void;
  readonly #histories = new HistoryCache();
  readonly #names = new SessionNames();

  constructor(options: ClientOptions = {}, link: Link = linkFor(options)) {
    this.#connection = new Connection(link, options);
    this.#log = options.log ?? ((line) => console.warn(`contextrender: ${line}`));
  }

  /** The number of histories that `fit` returned unchanged after an error, by reason. */
  get failures(): Readonly<Record<string, number>> {
    return this.#failures;
  }

  /** Counts and logs a history that an adapter sends unchanged, with its reason. */
  addFailure(reason: string): void {
    this.#failures[reason] = (this.#failures[reason] ?? 0) + 1;
    const total = Object.values(this.#failures).reduce((sum, count) => sum + count, 0);
    this.#log(`history sent unchanged (${reason}), ${total} so far`);
  }

  /**
   * Returns the history to send to the model: rendered, or `messages` itself after an error.
   *
   * `messages` is the whole history in each call. They are chat messages, unless `transcript` has
   * read them in another format. Without a `session`, a name is made from the first messages.
   */
  async fit<T>(
    session: string | null | undefined,
    messages: readonly T[],
    options: FitOptions = {},
    transcript?: Transcript<T>,
  ): Promise<FitResult<T>> {
    const { deadline = DEADLINE, failOpen = true, bypass_tools: bypass, ...others } = options;
    const { recalls, ...settings } = others;
    const stopAt = this.#connection.now() + deadline;
    try {
      const read = transcript ?? ofChat(messages);
      if (!read.messages.length) return { messages: [...messages], changed: false, failure: "" };
      const fields = { ...settings, output: "plan", answer_before_commit: true, agent_defaults: true };
      const [name, reply] = await (session
        ? this.#render(session, read.messages, fields, stopAt)
        : this.#renderUnnamed(read.messages, fields, stopAt));
      const fit = applyReply(messages, read, reply as unknown as replies.RenderView, bypass, recalls);
      if (fit.failure && !this.#warned.has(name)) {
        this.#warned.add(name);
        this.addFailure(fit.failure);
      }
      return fit;
    } catch (failure) {
      if (!failOpen || isInvalidSetting(failure)) throw failure;
      const reason = reasonOf(failure);
      this.addFailure(reason);
      return { messages: [...messages], changed: false, failure: reason };
    }
  }

  /** Records new messages, and returns the prompt for the next model call. */
  async render(
    session: string,
    messages: readonly AnyMessage[],
    options: RenderOptions = {},
  ): Promise<replies.RenderView> {
    const fields = { session, output: "messages", ...options };
    const reply: unknown = await this.#sendNew("render", session, messages, fields);
    return reply as replies.RenderView;
  }

  /** Records new messages. `settings` become the session's own. */
  async sync(
    session: string,
    messages: readonly AnyMessage[],
    options: { settings?: Omit<Settings, "model">; model?: string } = {},
  ): Promise<replies.SyncView> {
    const reply: unknown = await this.#sendNew("sync", session, messages, { session, ...options });
    return reply as replies.SyncView;
  }

  /** Returns complete results, by their positions or by the text `query`. */
  async recall(
    session: string,
    options: BranchOptions & { results?: readonly number[]; query?: string; limit?: number },
  ): Promise<replies.RecallView> {
    return this.#call("recall", { session, ...options });
  }

  /** Returns why each result is shown or omitted at a turn. The default is the next turn. */
  async explain(
    session: string,
    options: BranchOptions & Omit<Settings, "model"> & { turn?: number } = {},
  ): Promise<replies.ExplainView> {
    return this.#call("explain", { session, ...options });
  }

  /**
   * Returns a page of the caller's sessions, newest first. `next` in the reply is the `cursor` of
   * the next page. `query` selects sessions by name, folder, client, model or tools.
   */
  async listSessions(
    options: { limit?: number; cursor?: string; query?: string; since?: string; prices?: string[] } = {},
  ): Promise<replies.SessionPage> {
    return this.#call("list_sessions", options);
  }

  /** Returns a session's counts, branches and tools, without contents. */
  async inspectSession(session: string, options: BranchOptions = {}): Promise<replies.InspectView> {
    return this.#call("inspect_session", { session, ...options });
  }

  /** Returns a whole session, for `importSession`. */
  async exportSession(session: string): Promise<replies.ExportView> {
    return this.#call("export_session", { session });
  }

  /** Stores an exported session, under its own name unless `session` is set. */
  async importSession(data: replies.ExportView, session?: string): Promise<replies.SyncView> {
    return this.#call("import_session", { data, session });
  }

  /** Deletes a session with all its contents. */
  async deleteSession(session: string, updatedAt?: number): Promise<replies.DeleteView> {
    this.#histories.forget(session);
    return this.#call("delete_session", { session, updated_at: updatedAt });
  }

  async #call<T>(walker: string, fields: Fields): Promise<T> {
    return (await this.#connection.call(walker, fields)) as T;
  }

  async #render(
    session: string,
    messages: readonly ChatMessage[],
    fields: Fields,
    stopAt: number,
  ): Promise<[string, Fields]> {
    return [session, await this.#sendNew("render", session, messages, { session, ...fields }, stopAt)];
  }

  /** Renders a history in the session that it continues, or in a new one. Returns that session, too. */
  async #renderUnnamed(messages: readonly ChatMessage[], fields: Fields, stopAt: number): Promise<[string, Fields]> {
    let session = nameOf(messages);
    // Each name that the service refuses stands for more equal messages than the one before it.
    for (let names = 0; ; names += 1) {
      session = this.#names.find(session, messages);
      try {
        return await this.#render(session, messages, { ...fields, one_conversation: true }, stopAt);
      } catch (failure) {
        if (!(failure instanceof OtherConversation) || names > messages.length) throw failure;
        this.#names.add(session, messages, Number(failure.details["fork"] ?? 0));
      }
    }
  }

  /** Sends the messages that are not recorded yet; all messages if the recorded ones differ. */
  async #sendNew(
    walker: string,
    session: string,
    messages: readonly unknown[],
    fields: Fields,
    stopAt = Infinity,
  ): Promise<Fields> {
    const [recorded, fingerprint] = this.#histories.compare(session, messages);
    const sendAfter = ({ messages: offset, digest: prefix }: RecordedPart) => {
      const newMessages = messages.slice(offset);
      return this.#connection.call(walker, { ...fields, offset, prefix, messages: newMessages }, stopAt);
    };
    let reply: Fields;
    try {
      reply = await sendAfter(recorded);
    } catch (failure) {
      if (!(failure instanceof HistoryDiverged) || !recorded.messages) throw failure;
      reply = await sendAfter(NOTHING_RECORDED);
    }
    const digest = String(reply["digest"]);
    this.#histories.remember(session, { messages: messages.length, fingerprint, digest });
    return reply;
  }
}

function ofChat<T>(items: readonly T[]): Transcript<T> {
  return new ChatTranscript(items as readonly AnyMessage[]) as unknown as Transcript<T>;
}
