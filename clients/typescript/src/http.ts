/** The steps of a flow done for real, by the platform's own `fetch`. */

import { resolveCredentials, type Credentials } from "./credentials.js";
import { lost, type Act, type Answer, type Exchange, type Step } from "./flow.js";

const NOTHING: Answer = { status: 0, body: "" };

/** Does steps for a client that was given this address and token, or parts of them. */
export function acting(given: Partial<Credentials>): Act {
  return async function act(step: Step): Promise<Answer> {
    if (step.kind === "exchange") return post(step);
    if (step.kind === "find") return { ...NOTHING, credentials: await resolveCredentials(given) };
    await new Promise((resolve) => setTimeout(resolve, step.milliseconds));
    return NOTHING;
  };
}

async function post(asked: Exchange): Promise<Answer> {
  // Timers take whole milliseconds, and no more than an unsigned 32-bit number of them.
  const limit = Math.min(Math.max(1, Math.ceil(asked.milliseconds)), 2 ** 31 - 1);
  const signal = AbortSignal.timeout(limit);
  try {
    const response = await fetch(asked.url + asked.path, {
      method: "POST",
      headers: headersOf(asked),
      body: asked.body,
      redirect: "error",
      signal,
    });
    return { status: response.status, body: await response.text() };
  } catch (failure) {
    throw lost(asked.url, failure, signal.aborted);
  }
}

function headersOf({ token, session }: Exchange): Record<string, string> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return session ? { ...headers, "x-contextrender-session": encodeURIComponent(session.toWellFormed()) } : headers;
}
