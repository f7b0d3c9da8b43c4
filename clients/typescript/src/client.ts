/**
 * The client: `new ContextRender().fit(session, messages)` before each model call.
 *
 * It takes the whole message list every time and sends only what is new.
 */

import { ChatTranscript, type AnyMessage, type ChatMessage, type Transcript } from "./chat.js";
import { Connection, type ConnectionOptions, type Fields } from "./connection.js";
import type { Credentials } from "./credentials.js";
import { HistoryDiverged, OtherConversation, reasonOf } from "./errors.js";
import {
  DEADLINE,
  fitted,
  isCallersMistake,
  type FitOptions,
  type Fitted,
  type Settings,
} from "./fitting.js";
import { linkFor, type Link } from "./http.js";
import type * as replies from "./replies.js";
import { NOTHING, Sent, type Known } from "./sent.js";
import { hasUniqueCall, nameOf, SessionNames } from "./session_names.js";

/** The number of conversations that begin alike, after which the last name is shared. */
const MAX_FORKS = 32;

/** Address and token: as given, else from the environment, else those of the local service. */
export interface ClientOptions extends ConnectionOptions, Partial<Credentials> {
  /** Where a line goes for each history sent unchanged because something failed. */
  log?: (line: string) => void;
}

export interface RenderOptions extends Settings {
  /** "plan" leaves out the messages: what to show is then in `plan`. */
  output?: "messages" | "plan";
  /** It answers before what is new is on disk; should that fail, the next call sends it again. */
  answer_before_commit?: boolean;
}

/** A line of a session: the one of that number, its newest unless given. */
export interface Where {
  branch?: number;
}

/** Every method answers with the reply, or rejects with a `ContextRenderError`. */
export class ContextRender {
  readonly #connection: Connection;
  readonly #failures: Record<string, number> = {};
  readonly #log: (line: string) => void;
  readonly #sent = new Sent();
  readonly #names = new SessionNames();

  constructor(options: ClientOptions = {}, link: Link = linkFor(options)) {
    this.#connection = new Connection(link, options);
    this.#log = options.log ?? ((line) => console.warn(`contextrender: ${line}`));
  }

  /** How often `fit` let the original through, by reason. */
  get failures(): Readonly<Record<string, number>> {
    return this.#failures;
  }

  /** Counts and logs a history that goes unchanged for a reason of an adapter's own. */
  failed(reason: string): void {
    this.#failures[reason] = (this.#failures[reason] ?? 0) + 1;
    const all = Object.values(this.#failures).reduce((sum, count) => sum + count, 0);
    this.#log(`history sent unchanged (${reason}), ${all} so far`);
  }

  /**
   * What to send to the model in place of `messages`; the original when anything goes wrong.
   *
   * `messages` is the whole history, every time, as chat messages, unless `transcript` reads it
   * otherwise. Without a session, its name is made from how the history begins.
   */
  async fit<T>(
    session: string | null | undefined,
    messages: readonly T[],
    options: FitOptions = {},
    transcript?: Transcript<T>,
  ): Promise<Fitted<T>> {
    const { deadline = DEADLINE, failOpen = true, bypass_tools: bypass, ...others } = options;
    const { recalls, ...settings } = others;
    const until = this.#connection.now() + deadline;
    try {
      const read = transcript ?? ofChat(messages);
      if (!read.messages.length) return { messages: [...messages], changed: false, failure: "" };
      const name = session || (await this.#findSession(read.messages, until));
      const fields = { session: name, ...settings, output: "plan", answer_before_commit: true, agent_defaults: true };
      const reply = await this.#sendNew("render", name, read.messages, fields, until);
      return fitted(messages, read, reply as unknown as replies.RenderView, bypass, recalls);
    } catch (failure) {
      if (!failOpen || isCallersMistake(failure)) throw failure;
      const reason = reasonOf(failure);
      this.failed(reason);
      return { messages: [...messages], changed: false, failure: reason };
    }
  }

  /** Records what is new of `messages`, and answers with the history for the next model call. */
  async render(
    session: string,
    messages: readonly AnyMessage[],
    options: RenderOptions = {},
  ): Promise<replies.RenderView> {
    const fields = { session, output: "messages", ...options };
    const reply: unknown = await this.#sendNew("render", session, messages, fields);
    return reply as replies.RenderView;
  }

  /** Records what is new of `messages`; `settings` become the session's own. */
  async sync(
    session: string,
    messages: readonly AnyMessage[],
    options: { settings?: Omit<Settings, "model">; model?: string } = {},
  ): Promise<replies.SyncView> {
    const reply: unknown = await this.#sendNew("sync", session, messages, { session, ...options });
    return reply as replies.SyncView;
  }

  /** Complete results: those at the positions `results`, or those that answer `query` best. */
  async recall(
    session: string,
    wanted: Where & { results?: readonly number[]; query?: string; limit?: number },
  ): Promise<replies.RecallView> {
    return this.#call("recall", { session, ...wanted });
  }

  /** Why each result is shown or not at a turn, the next one unless given. */
  async explain(
    session: string,
    asked: Where & Omit<Settings, "model"> & { turn?: number } = {},
  ): Promise<replies.ExplainView> {
    return this.#call("explain", { session, ...asked });
  }

  /**
   * A page of the caller's sessions, newest first; its `next` is the next page's `cursor`. With a
   * `query`, only those with it in their name, folder, client, model or tools.
   */
  async listSessions(
    asked: { limit?: number; cursor?: string; query?: string; since?: string; prices?: string[] } = {},
  ): Promise<replies.SessionPage> {
    return this.#call("list_sessions", asked);
  }

  /** A session's shape, without contents. */
  async inspectSession(session: string, where: Where = {}): Promise<replies.InspectView> {
    return this.#call("inspect_session", { session, ...where });
  }

  /** A whole session, to be kept or imported elsewhere. */
  async exportSession(session: string): Promise<replies.ExportView> {
    return this.#call("export_session", { session });
  }

  /** Makes a session from what `exportSession` gave, under its own name unless given. */
  async importSession(data: replies.ExportView, session?: string): Promise<replies.SyncView> {
    return this.#call("import_session", { data, session });
  }

  /** Removes a session and all that it holds. */
  async deleteSession(session: string, updatedAt?: number): Promise<replies.DeleteView> {
    this.#sent.forget(session);
    return this.#call("delete_session", { session, updated_at: updatedAt });
  }

  async #call<T>(walker: string, fields: Fields): Promise<T> {
    return (await this.#connection.call(walker, fields)) as T;
  }

  /** The name of the session that a history continues, or its own. It may record new messages. */
  async #findSession(messages: readonly ChatMessage[], until: number): Promise<string> {
    const isAnswered = messages.some(({ role }) => role === "assistant");
    let session = nameOf(messages);
    for (let forks = 0; forks < MAX_FORKS; forks += 1) {
      session = this.#names.find(session, messages);
      if (!isAnswered || this.#sent.compare(session, messages)[0].messages) return session;
      try {
        await this.#sendNew("sync", session, messages, { session, one_conversation: true }, until);
        return session;
      } catch (failure) {
        if (!(failure instanceof OtherConversation)) throw failure;
        const fork = Number(failure.details["fork"] ?? 0);
        if (hasUniqueCall(messages.slice(0, fork))) return session;
        this.#names.add(session, messages, fork);
      }
    }
    return session;
  }

  /** Sends the messages after those the service has; all of them when it disagrees. */
  async #sendNew(
    walker: string,
    session: string,
    messages: readonly unknown[],
    fields: Fields,
    until = Infinity,
  ): Promise<Fields> {
    const [known, now] = this.#sent.compare(session, messages);
    const sendFrom = ({ messages: offset, digest: prefix }: Known) => {
      const fresh = messages.slice(offset);
      return this.#connection.call(walker, { ...fields, offset, prefix, messages: fresh }, until);
    };
    let reply: Fields;
    try {
      reply = await sendFrom(known);
    } catch (failure) {
      if (!(failure instanceof HistoryDiverged) || !known.messages) throw failure;
      reply = await sendFrom(NOTHING);
    }
    const digest = String(reply["digest"]);
    this.#sent.remember(session, { messages: messages.length, fingerprint: now, digest });
    return reply;
  }
}

function ofChat<T>(items: readonly T[]): Transcript<T> {
  return new ChatTranscript(items as readonly AnyMessage[]) as unknown as Transcript<T>;
}
