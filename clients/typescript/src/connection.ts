/** Calls of walkers: JSON requests with a valid token, repeated if that can help, with a deadline. */

import type { Credentials } from "./credentials.js";
import { errorOf, InvalidRequest, ServerError, Unauthorized, Unreachable } from "./errors.js";
import type { Exchange, Link } from "./http.js";

export type Fields = Record<string, unknown>;
type WalkerRequest = Pick<Exchange, "path" | "body" | "session">;

/** The maximum time in milliseconds of a call without a deadline. */
export const TIMEOUT = 60_000;
const RETRIES = 2;
/** The pause in milliseconds before the first retry; each later one is twice as long. */
const FIRST_PAUSE = 50;
const NOT_REPEATABLE = ["import_session", "delete_session"];
/** Statuses of failures that may be temporary; 0 means that there was no answer. */
const TEMPORARY_STATUSES = [0, 502, 503, 504];

export interface ConnectionOptions {
  /** The maximum number of retries of a call that did not reach the service or found it busy. */
  retries?: number;
  /** The maximum time in milliseconds of a call without a deadline. */
  timeout?: number;
  /** The clock: returns milliseconds. */
  now?: () => number;
}

/** The calls of one client, with its address and token. */
export class Connection {
  readonly now: () => number;
  readonly #link: Link;
  readonly #retries: number;
  readonly #timeout: number;
  #credentials: Credentials | undefined;

  constructor(link: Link, options: ConnectionOptions) {
    this.#link = link;
    this.#retries = options.retries ?? RETRIES;
    this.#timeout = options.timeout ?? TIMEOUT;
    this.now = options.now ?? (() => performance.now());
  }

  /** Returns a walker's report. Undefined fields are not sent. `stopAt` is a time of `now`. */
  async call(walker: string, fields: Fields, stopAt = Infinity): Promise<Fields> {
    const session = `${fields.session ?? ""}`;
    const request = { path: `/walker/${walker}`, body: encode(fields), session };
    let pause = FIRST_PAUSE;
    let retriesLeft = NOT_REPEATABLE.includes(walker) ? 0 : this.#retries;
    while (true) {
      try {
        return await this.#report(request, stopAt);
      } catch (failure) {
        if (!retriesLeft || !isTemporary(failure) || this.now() + pause > stopAt) throw failure;
      }
      retriesLeft -= 1;
      await this.#link.wait(pause);
      pause *= 2;
    }
  }

  /**
   * Returns the report. If the service may have moved, finds its credentials again, and repeats the
   * request if they have changed.
   */
  async #report(request: WalkerRequest, stopAt: number): Promise<Fields> {
    const cached = this.#credentials;
    const credentials = cached ?? (this.#credentials = await this.#link.find());
    try {
      return await this.#post(credentials, request, stopAt);
    } catch (failure) {
      if (!cached || !mayHaveMoved(failure)) throw failure;
      const current = (this.#credentials = await this.#link.find());
      if (current.url === cached.url && current.token === cached.token) throw failure;
      return await this.#post(current, request, stopAt);
    }
  }

  async #post({ url, token }: Credentials, request: WalkerRequest, stopAt: number): Promise<Fields> {
    const milliseconds = Math.min(this.#timeout, stopAt - this.now());
    const { status, body } = await this.#link.post({ url, token, milliseconds, ...request });
    return reportOf(status, body, url);
  }
}

function encode(fields: Fields): string {
  try {
    return JSON.stringify(fields);
  } catch (failure) {
    throw new InvalidRequest("invalid_json", 0, `This cannot be sent as JSON: ${failure}.`);
  }
}

function reportOf(status: number, body: string, url: string): Fields {
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch {
    // Another program answers at this address: `errorOf` reports that.
  }
  const report: unknown = (answer as { reports?: unknown[] } | null)?.reports?.[0];
  if (status === 200 && report && typeof report === "object") return report as Fields;
  throw errorOf(status, answer, url);
}

function isTemporary(failure: unknown): boolean {
  const isOfService = failure instanceof Unreachable || failure instanceof ServerError;
  return isOfService && TEMPORARY_STATUSES.includes(failure.status);
}

/** Returns whether the service may have started again, at another address or with another token. */
function mayHaveMoved(failure: unknown): boolean {
  if (failure instanceof Unreachable) return failure.code === "unreachable";
  return failure instanceof Unauthorized;
}
