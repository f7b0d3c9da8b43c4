// The service, asked as its users ask it: POST /walker/NAME with a bearer token.

const KEY = "contextrender.token";

/** A refusal, with the server's own sentence. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

type Listener = () => void;
const listeners = new Set<Listener>();
let refusal = "";

export const token = (): string => sessionStorage.getItem(KEY) ?? "";

/** Why the last token was refused, for the login page. */
export const signedOutBecause = (): string => refusal;

export function onToken(listener: Listener): Listener {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function setToken(value: string, because = ""): void {
  refusal = because;
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  for (const listener of [...listeners]) listener();
}

/** Moves a token from `#token=...` into this tab's storage and out of the address bar. */
export function takeTokenFromAddress(): void {
  const given = /^#token=([^&]+)/.exec(location.hash);
  if (!given) return;
  history.replaceState(null, "", location.pathname);
  setToken(decodeURIComponent(given[1]));
}

export async function logIn(username: string, password: string): Promise<void> {
  const reply = await post<{ token: string }>("/user/login", { username, password }, "");
  setToken(reply.token);
}

/** The first report of a walker. A refused token leads back to the login page. */
export async function ask<T>(walker: string, fields: object, signal?: AbortSignal): Promise<T> {
  try {
    const reply = await post<{ reports: T[] }>(`/walker/${walker}`, fields, token(), signal);
    return reply.reports[0];
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      setToken("", "Your session has ended. Sign in again.");
    }
    throw error;
  }
}

async function post<T>(path: string, body: object, bearer: string, signal?: AbortSignal): Promise<T> {
  let reply: Response;
  try {
    reply = await fetch(path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(bearer ? { authorization: `Bearer ${bearer}` } : {}),
      },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The service does not answer. Is it running?");
  }
  const parsed = await reply.json().catch(() => null);
  if (!reply.ok || parsed === null) {
    const { code = "error", message = `The service answered ${reply.status}.` } = parsed?.error ?? {};
    throw new ApiError(reply.status, code, message);
  }
  return parsed as T;
}

export const isAbort = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "AbortError";
