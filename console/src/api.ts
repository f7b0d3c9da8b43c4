// The service, asked as its users ask it: POST /walker/NAME. Who asks, a cookie says that scripts
// cannot read; beside it goes its proof, kept in this origin's storage for every tab. A read-only link to
// one session is kept by the tab that it was opened in, and goes as it is.
import { keep, kept, tellKept } from "./kept";
import { readPlace } from "./route";

const LINK = "contextrender.link";

/** A refusal, with the server's own sentence. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let refusal = "";

export const isSignedIn = (): boolean => link() !== null || kept("proof") !== null;

/** The one session that this tab may look at; null where the user is signed in. */
export const visited = (): string | null => link()?.session ?? null;

interface ReadLink {
  secret: string;
  session: string;
}

const link = (): ReadLink | null => JSON.parse(sessionStorage.getItem(LINK) ?? "null");

/** Why the last sign-in ended, for the login page. */
export const signedOutBecause = (): string => refusal;

function keepProof(proof: string | null, because = ""): void {
  refusal = because;
  sessionStorage.removeItem(LINK);
  keep("proof", proof);
}

function keepLink(found: ReadLink | null, because = ""): void {
  refusal = because;
  if (found) sessionStorage.setItem(LINK, JSON.stringify(found));
  else sessionStorage.removeItem(LINK);
  tellKept();
}

/** Signs in with a code, or with a token as the bearer. */
async function signIn(body: object, bearer = ""): Promise<void> {
  keepProof((await post<{ proof: string }>("/console/sign-in", body, bearer)).proof);
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
  try {
    await (kind === "token" ? signIn({}, decodeURIComponent(secret)) : signIn({ code: secret }));
  } catch (error) {
    const told = error instanceof ApiError && error.status !== 401 ? error.message : REFUSED[kind];
    if (!isSignedIn()) keepProof(null, told);
  }
}

const REFUSED: Record<string, string> = {
  code: "This link was used before or has expired. Run “contextrender console” for another, or sign in.",
  token: "The token of this link has expired. Sign in again.",
};

export async function logIn(username: string, password: string): Promise<void> {
  const { token } = await post<{ token: string }>("/user/login", { username, password });
  await signIn({}, token);
}

export async function signOut(): Promise<void> {
  if (link()) return keepLink(null, "You closed the session.");
  await post("/console/sign-out", {}).catch(() => null);
  keepProof(null);
}

/** The first report of a walker. A refused token leads back to the login page. */
export async function ask<T>(walker: string, fields: object, signal?: AbortSignal): Promise<T> {
  try {
    return (await post<{ reports: T[] }>(`/walker/${walker}`, fields, link()?.secret, signal)).reports[0];
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      if (link()) keepLink(null, "This link has expired or was revoked.");
      else keepProof(null, "Your session has ended. Sign in again.");
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

async function post<T>(path: string, body: object, bearer = "", signal?: AbortSignal): Promise<T> {
  let reply: Response;
  try {
    reply = await fetch(path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(bearer ? { authorization: `Bearer ${bearer}` } : { "x-contextrender-console": kept("proof") ?? "" }),
      },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The service does not answer. Is it running?");
  }
  const parsed = await reply.json().catch(() => null);
  if (!reply.ok || parsed === null) {
    throw new ApiError(reply.status, parsed?.error?.message ?? `The service answered ${reply.status}.`);
  }
  return parsed;
}
