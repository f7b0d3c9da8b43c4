/**
 * The API as flows: what each method sends and what it makes of the answer.
 *
 * It takes the whole message list every time and sends only what is new.
 */

import { ChatTranscript, type AnyMessage, type Transcript } from "./dialects/chat.js";
import { Connection, type ConnectionOptions, type Fields } from "./connection.js";
import { DIALECTS, type Dialect } from "./dialects/index.js";
import { HistoryDiverged, reasonOf } from "./errors.js";
import {
  DEADLINE,
  Failures,
  fitted,
  hasRecallTool,
  isCallersMistake,
  nameOf,
  type FitOptions,
  type Fitted,
  type FittedRequest,
  type Settings,
} from "./fitting.js";
import type { Flow } from "./flow.js";
import type * as replies from "./replies.js";
import { NOTHING, Sent, type Known } from "./sent.js";

export interface RenderOptions extends Settings {
  /** "plan" leaves out the messages: what to show is then in `plan`. */
  want?: "messages" | "plan";
  /** It answers before what is new is on disk; should that fail, the next call sends it again. */
  early?: boolean;
}

export interface CoreOptions extends ConnectionOptions {
  /** Where a line goes for each history sent unchanged because something failed. */
  log?: (line: string) => void;
}

/** How items are read. What it throws lets them through unchanged. */
export type Reader<T> = (items: readonly T[]) => Transcript<T>;

function ofChat<T>(items: readonly T[]): Transcript<T> {
  return new ChatTranscript(items as readonly AnyMessage[]) as unknown as Transcript<T>;
}

export class Core {
  /** How often `fit` let the original through, by reason. */
  readonly failures: Failures;
  readonly #connection: Connection;
  readonly #sent = new Sent();

  constructor(options: CoreOptions = {}) {
    this.#connection = new Connection(options);
    this.failures = new Failures(options.log ?? ((line) => console.warn(`contextrender: ${line}`)));
  }

  /** Any walker's report. */
  *call(walker: string, fields: Fields): Flow<unknown> {
    return yield* this.#connection.call(walker, fields);
  }

  *render(
    session: string,
    messages: readonly AnyMessage[],
    options: RenderOptions,
  ): Flow<replies.RenderView> {
    const fields = { session, want: "messages", ...options };
    const sent = this.#sendNew("render", session, messages, fields);
    return (yield* sent) as unknown as replies.RenderView;
  }

  *sync(
    session: string,
    messages: readonly AnyMessage[],
    fields: Fields,
  ): Flow<replies.SyncView> {
    const sent = this.#sendNew("sync", session, messages, { session, ...fields });
    return (yield* sent) as unknown as replies.SyncView;
  }

  *fit<T>(
    session: string | null | undefined,
    whole: readonly T[],
    options: FitOptions,
    read: Reader<T> = ofChat,
  ): Flow<Fitted<T>> {
    const { deadline = DEADLINE, failOpen = true, bypass_tools: bypass, ...others } = options;
    const { recalls, ...settings } = others;
    const until = this.#connection.now() + deadline;
    try {
      const transcript = read(whole);
      const { messages } = transcript;
      if (!messages.length) return { messages: [...whole], changed: false, failure: "" };
      const name = session || nameOf(messages);
      const fields = { session: name, ...settings, want: "plan", early: true, live: true };
      const reply = yield* this.#sendNew("render", name, messages, fields, until);
      return fitted(whole, transcript, reply as unknown as replies.RenderView, bypass, recalls);
    } catch (failure) {
      if (!failOpen || isCallersMistake(failure)) throw failure;
      const reason = reasonOf(failure);
      this.failures.add(reason);
      return { messages: [...whole], changed: false, failure: reason };
    }
  }

  *fitRequest<R extends object>(
    session: string | null | undefined,
    request: R,
    dialect: Dialect,
    options: FitOptions,
  ): Flow<FittedRequest<R>> {
    const { field, read } = DIALECTS[dialect];
    const fields = request as Record<string, unknown>;
    const items = fields[field];
    // A text in its place is one message: nothing can leave.
    if (!Array.isArray(items)) return { request, changed: false, failure: "" };
    const asked = { ...options, recalls: options.recalls ?? hasRecallTool(fields) };
    const fit = this.fit<unknown>(session, items, asked, (whole) => read(fields, whole));
    const { messages, ...told } = yield* fit;
    return { ...told, request: told.changed ? { ...request, [field]: messages } : request };
  }

  forget(session: string): void {
    this.#sent.forget(session);
  }

  /** Sends the messages after those the service has; all of them when it disagrees. */
  *#sendNew(
    walker: string,
    session: string,
    messages: readonly unknown[],
    fields: Fields,
    until = Infinity,
  ): Flow<Fields & { digest: string }> {
    const [known, now] = this.#sent.compare(session, messages);
    const sendFrom = ({ messages: offset, digest: prefix }: Known) => {
      const fresh = messages.slice(offset);
      return this.#connection.call(walker, { ...fields, offset, prefix, messages: fresh }, until);
    };
    let reply: Fields;
    try {
      reply = yield* sendFrom(known);
    } catch (failure) {
      if (!(failure instanceof HistoryDiverged) || !known.messages) throw failure;
      reply = yield* sendFrom(NOTHING);
    }
    const digest = String(reply["digest"]);
    this.#sent.remember(session, { messages: messages.length, fingerprint: now, digest });
    return { ...reply, digest };
  }
}
