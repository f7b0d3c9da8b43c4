/** Calls of walkers: as JSON, with a good token, again where that helps, within a deadline. */

import type { Credentials } from "./credentials.js";
import { errorOf, InvalidRequest, ServerError, Unauthorized, Unreachable } from "./errors.js";
import type { Exchange, Link } from "./http.js";

export type Fields = Record<string, unknown>;
type Asked = Pick<Exchange, "path" | "body" | "session">;

/** Milliseconds that a call may take where it has no deadline. */
export const TIMEOUT = 60_000;
const RETRIES = 2;
const FIRST_PAUSE = 50;
const NOT_REPEATABLE = ["import_session", "delete_session"];
/** Statuses of failures that may be over at the next try. */
const PASSING = [0, 502, 503, 504];

export interface ConnectionOptions {
  /** How often a call is made again that could not reach the service, or found it busy. */
  retries?: number;
  /** Milliseconds that a call may take where it has no deadline. */
  timeout?: number;
  /** A clock in milliseconds. */
  now?: () => number;
}

/** Where the service is and who asks it. */
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

  /** A walker's report; fields that are undefined are left to the service. `until`: by `now`. */
  async call(walker: string, fields: Fields, until = Infinity): Promise<Fields> {
    const session = `${fields.session ?? ""}`;
    const asked = { path: `/walker/${walker}`, body: encoded(fields), session };
    let pause = FIRST_PAUSE;
    let left = NOT_REPEATABLE.includes(walker) ? 0 : this.#retries;
    while (true) {
      try {
        return await this.#report(asked, until);
      } catch (failure) {
        if (!left || !isPassing(failure) || this.now() + pause > until) throw failure;
      }
      left -= 1;
      await this.#link.wait(pause);
      pause *= 2;
    }
  }

  /** The report; with other credentials if those used last are no longer good. */
  async #report(asked: Asked, until: number): Promise<Fields> {
    const known = this.#credentials;
    const used = known ?? (this.#credentials = await this.#link.find());
    try {
      return await this.#post(used, asked, until);
    } catch (failure) {
      if (!known || !mayHaveMoved(failure)) throw failure;
      const found = (this.#credentials = await this.#link.find());
      if (found.url === known.url && found.token === known.token) throw failure;
      return await this.#post(found, asked, until);
    }
  }

  async #post({ url, token }: Credentials, asked: Asked, until: number): Promise<Fields> {
    const milliseconds = Math.min(this.#timeout, until - this.now());
    const { status, body } = await this.#link.post({ url, token, milliseconds, ...asked });
    return reportOf(status, body);
  }
}

function encoded(fields: Fields): string {
  try {
    return JSON.stringify(fields);
  } catch (failure) {
    throw new InvalidRequest("invalid_json", 0, `This cannot be sent as JSON: ${failure}.`);
  }
}

function reportOf(status: number, body: string): Fields {
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch {
    // Not the service's: what else answers there need not be JSON.
  }
  const report: unknown = (answer as { reports?: unknown[] } | null)?.reports?.[0];
  if (status === 200 && report && typeof report === "object") return report as Fields;
  throw errorOf(status, answer);
}

function isPassing(failure: unknown): boolean {
  const isTheirs = failure instanceof Unreachable || failure instanceof ServerError;
  return isTheirs && PASSING.includes(failure.status);
}

/** Whether the service may have been started anew: elsewhere, or with another token. */
function mayHaveMoved(failure: unknown): boolean {
  if (failure instanceof Unreachable) return failure.code === "unreachable";
  return failure instanceof Unauthorized;
}
