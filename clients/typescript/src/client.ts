/** The client: `new ContextRender().fit(session, messages)` before each model call. */

import type { AnyMessage, Transcript } from "./dialects/chat.js";
import type { Fields } from "./connection.js";
import { Core, type CoreOptions, type RenderOptions } from "./core.js";
import type { Dialect } from "./dialects/index.js";
import type { Credentials } from "./credentials.js";
import type { FitOptions, Fitted, FittedRequest, Settings } from "./fitting.js";
import { drive, type Act, type Flow } from "./flow.js";
import { acting } from "./http.js";
import type * as replies from "./replies.js";

/** Address and token: as given, else from the environment, else those of the local service. */
export interface ClientOptions extends CoreOptions, Partial<Credentials> {}

/** A line of a session: the one of that number, its newest unless given. */
export interface Where {
  branch?: number;
}

/** Every method answers with the reply, or rejects with a `ContextRenderError`. */
export class ContextRender {
  readonly #core: Core;
  readonly #act: Act;

  constructor(options: ClientOptions = {}, act: Act = acting(options)) {
    this.#core = new Core(options);
    this.#act = act;
  }

  /** How often `fit` let the original through, by reason. */
  get failures(): Readonly<Record<string, number>> {
    return this.#core.failures.counts;
  }

  /** Counts and logs a history that goes unchanged for a reason of an adapter's own. */
  failed(reason: string): void {
    this.#core.failures.add(reason);
  }

  /**
   * What to send to the model in place of `messages`; the original when anything goes wrong.
   *
   * `messages` is the whole history, every time, as chat messages, unless `transcript` reads it
   * otherwise. Without a session, how the history begins names it.
   */
  async fit<T>(
    session: string | null | undefined,
    messages: readonly T[],
    options: FitOptions = {},
    transcript?: Transcript<T>,
  ): Promise<Fitted<T>> {
    const read = transcript && (() => transcript);
    return this.#run(this.#core.fit(session, messages, options, read));
  }

  /**
   * The same for a whole request, as OpenAI's chat completions (`chat`), its Responses (`responses`)
   * or Anthropic's Messages (`messages`) take it: `request` is then what to send, the caller's own
   * object when nothing changed.
   */
  async fitRequest<R extends object>(
    session: string | null | undefined,
    request: R,
    dialect: Dialect,
    options: FitOptions = {},
  ): Promise<FittedRequest<R>> {
    return this.#run(this.#core.fitRequest(session, request, dialect, options));
  }

  /** Records what is new of `messages`, and answers with the history for the next model call. */
  async render(
    session: string,
    messages: readonly AnyMessage[],
    options: RenderOptions = {},
  ): Promise<replies.RenderView> {
    return this.#run(this.#core.render(session, messages, options));
  }

  /** Records what is new of `messages`; `settings` become the session's own. */
  async sync(
    session: string,
    messages: readonly AnyMessage[],
    options: { settings?: Omit<Settings, "model">; model?: string } = {},
  ): Promise<replies.SyncView> {
    return this.#run(this.#core.sync(session, messages, { ...options }));
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
    this.#core.forget(session);
    return this.#call("delete_session", { session, updated_at: updatedAt });
  }

  async #call<T>(walker: string, fields: Fields): Promise<T> {
    return (await this.#run(this.#core.call(walker, fields))) as T;
  }

  #run<T>(flow: Flow<T>): Promise<T> {
    return drive(flow, this.#act);
  }
}
