/** How a client reaches the service: the platform's own `fetch`, timers and files. */

import { resolveCredentials, type Credentials } from "./credentials.js";
import { reasonOf, Unreachable } from "./errors.js";

/**
 * A JSON body to POST, within `milliseconds` unless they are infinite. `session`, in a header, lets
 * a balancer prefer the process that has that session in memory.
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

/** All that a client does outside itself; tests have one without I/O. */
export interface Link {
  /** Address and token as they are now: the service may have been started in the meantime. */
  find(): Promise<Credentials>;
  /** Rejects with `Unreachable` where no answer comes. */
  post(asked: Exchange): Promise<Answer>;
  wait(milliseconds: number): Promise<unknown>;
}

/** The link of a client that was given this address and token, or parts of them. */
export function linkFor(given: Partial<Credentials>): Link {
  return {
    find: () => resolveCredentials(given),
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
  // Timers take whole milliseconds, and no more than an unsigned 32-bit number of them.
  const limit = Math.min(Math.max(1, Math.ceil(milliseconds)), 2 ** 31 - 1);
  const signal = AbortSignal.timeout(limit);
  try {
    const asked = { method: "POST", headers, body, redirect: "error", signal } as const;
    const response = await fetch(url + path, asked);
    return { status: response.status, body: await response.text() };
  } catch (failure) {
    const late = signal.aborted;
    const sentence = `No answer from ${url}: ${late ? "it took too long" : reasonOf(failure)}.`;
    throw new Unreachable(late ? "late" : "unreachable", 0, sentence);
  }
}
