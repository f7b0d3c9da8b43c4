/** The client's connection to the service, by the platform's own `fetch`, timers and files. */

import { resolveCredentials, type Credentials } from "./credentials.js";
import { reasonOf, Unreachable } from "./errors.js";

/**
 * A JSON body to POST, with a limit in milliseconds, which may be infinite. `session` is sent in a
 * header, so that a load balancer can choose the process that has the session in memory.
 */
export interface Exchange {
  url: string;
  path: string;
  token: string;
  body: string;
  session: string;
  milliseconds: number;
}

export interface Answer {
  status: number;
  body: string;
}

/** The I/O of a client. Tests replace it. */
export interface Link {
  /** Returns the current address and token, which change when the service starts again. */
  find(): Promise<Credentials>;
  /** Sends a request. Rejects with `Unreachable` if there is no answer. */
  post(request: Exchange): Promise<Answer>;
  wait(milliseconds: number): Promise<unknown>;
}

/** Returns the link for an address and a token; missing parts are found by `resolveCredentials`. */
export function linkFor(credentials: Partial<Credentials>): Link {
  return {
    find: () => resolveCredentials(credentials),
    post,
    wait: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
  };
}

async function post({ url, path, token, body, session, milliseconds }: Exchange): Promise<Answer> {
  const headers: Record<string, string> = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
  };
  if (session) headers["x-contextrender-session"] = encodeURIComponent(session.toWellFormed());
  // A timer takes a whole number of milliseconds below 2^31.
  const limit = Math.min(Math.max(1, Math.ceil(milliseconds)), 2 ** 31 - 1);
  const signal = AbortSignal.timeout(limit);
  try {
    const request = { method: "POST", headers, body, redirect: "error", signal } as const;
    const response = await fetch(url + path, request);
    return { status: response.status, body: await response.text() };
  } catch (failure) {
    const isLate = signal.aborted;
    const sentence = `No answer from ${url}: ${isLate ? "it took too long" : reasonOf(failure)}.`;
    throw new Unreachable(isLate ? "late" : "unreachable", 0, sentence);
  }
}
