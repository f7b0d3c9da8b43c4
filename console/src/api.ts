// The service, asked as its users ask it: POST /walker/NAME. Who asks, a cookie says that scripts
// cannot read; beside it goes its proof, kept in this origin's storage for every tab. A read-only link to
// one session is kept by the tab that it was opened in, and goes as it is.
import { readPlace } from "./route";

const KEY = "contextrender.proof";
const LINK = "contextrender.link";

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

export const isSignedIn = (): boolean => link() !== null || localStorage.getItem(KEY) !== null;

/** The one session that this tab may look at; null where the user is signed in. */
export const visited = (): string | null => link()?.session ?? null;

interface ReadLink {
  secret: string;
  session: string;
}

function link(): ReadLink | null {
  const kept = sessionStorage.getItem(LINK);
  return kept === null ? null : JSON.parse(kept);
}

/** Why the last sign-in ended, for the login page. */
export const signedOutBecause = (): string => refusal;

export function onSignIn(listener: Listener): Listener {
  const elsewhere = (event: StorageEvent) => event.key === KEY && listener();
  listeners.add(listener);
  addEventListener("storage", elsewhere);
  return () => {
    listeners.delete(listener);
    removeEventListener("storage", elsewhere);
  };
}

function keep(proof: string | null, because = ""): void {
  sessionStorage.removeItem(LINK);
  if (proof !== null) localStorage.setItem(KEY, proof);
  else localStorage.removeItem(KEY);
  tell(because);
}

function keepLink(kept: ReadLink | null, because = ""): void {
  if (kept) sessionStorage.setItem(LINK, JSON.stringify(kept));
  else sessionStorage.removeItem(LINK);
  tell(because);
}

function tell(because: string): void {
  refusal = because;
  for (const listener of [...listeners]) listener();
}

/** Signs in with what a link brings, `#code=...` (or `#token=...`), or looks through a read-only `#view=...`,
 * and goes where its `to` says. */
export async function followLink(): Promise<void> {
  const given = /^#(code|token|view)=([^&]+)(?:&to=(.*))?$/.exec(location.hash);
  if (!given) return;
  const [, kind, secret, to = ""] = given;
  history.replaceState(null, "", `${location.pathname}#${decodeURIComponent(to)}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
  if (kind === "view") return keepLink({ secret, session: readPlace(`#${decodeURIComponent(to)}`).session });
  const bearer = kind === "token" ? decodeURIComponent(secret) : "";
  try {
    keep((await post<SignedIn>("/console/sign-in", bearer ? {} : { code: secret }, bearer)).proof);
  } catch (error) {
    const told = error instanceof ApiError && error.status !== 401 ? error.message : REFUSED[kind];
    if (!isSignedIn()) keep(null, told);
  }
}

const REFUSED: Record<string, string> = {
  code: "This link was used before or has expired. Run “contextrender console” for another, or sign in.",
  token: "The token of this link has expired. Sign in again.",
};

interface SignedIn {
  proof: string;
}

export async function logIn(username: string, password: string): Promise<void> {
  const { token } = await post<{ token: string }>("/user/login", { username, password }, "");
  keep((await post<SignedIn>("/console/sign-in", {}, token)).proof);
}

export async function signOut(): Promise<void> {
  if (link()) return keepLink(null, "You closed the session.");
  await post("/console/sign-out", {}, "").catch(() => null);
  keep(null);
}

/** The first report of a walker. A refused token leads back to the login page. */
export async function ask<T>(walker: string, fields: object, signal?: AbortSignal): Promise<T> {
  try {
    const reply = await post<{ reports: T[] }>(`/walker/${walker}`, fields, "", signal);
    return reply.reports[0];
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      if (link()) keepLink(null, "This link has expired or was revoked.");
      else keep(null, "Your session has ended. Sign in again.");
    }
    throw error;
  }
}

/** Asks until the report is complete, and tells each one. */
export async function askWhole<T extends { complete?: boolean }>(
  walker: string, fields: object, signal: AbortSignal, tell: (value: T) => void = () => undefined,
): Promise<T> {
  for (;;) {
    const value = await ask<T>(walker, fields, signal);
    tell(value);
    if (value.complete !== false) return value;
  }
}

async function post<T>(path: string, body: object, given: string, signal?: AbortSignal): Promise<T> {
  const bearer = given || (path.startsWith("/walker/") && link()?.secret) || "";
  let reply: Response;
  try {
    reply = await fetch(path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(bearer ? { authorization: `Bearer ${bearer}` } : { "x-contextrender-console": localStorage.getItem(KEY) ?? "" }),
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
