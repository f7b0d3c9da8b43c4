// Requests to the service: POST /walker/NAME. A cookie that scripts cannot read identifies the user; each
// request also sends its proof, which this origin stores for every tab. A tab that was opened by a read-only
// link stores the link's secret and sends that instead.
import { announceChange, preference, setPreference } from "./preferences";
import { readPlace } from "./route";

const LINK = "contextrender.link";

/** An error reply, with the server's sentence. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let signOutReason = "";

export const isSignedIn = (): boolean => link() !== null || preference("proof") !== null;

/** The one session that a read-only link opens; null if the user is signed in. */
export const linkedSession = (): string | null => link()?.session ?? null;

interface ShareLink {
  secret: string;
  session: string;
}

const link = (): ShareLink | null => JSON.parse(sessionStorage.getItem(LINK) ?? "null");

/** The reason why the last sign-in ended, for the login page. */
export const lastSignOutReason = (): string => signOutReason;

function storeProof(proof: string | null, reason = ""): void {
  signOutReason = reason;
  sessionStorage.removeItem(LINK);
  setPreference("proof", proof);
}

function storeLink(shareLink: ShareLink | null, reason = ""): void {
  signOutReason = reason;
  if (shareLink) sessionStorage.setItem(LINK, JSON.stringify(shareLink));
  else sessionStorage.removeItem(LINK);
  announceChange();
}

/** Sign in with a code, or with a token as the bearer. */
async function signIn(body: object, bearer = ""): Promise<void> {
  storeProof((await post<{ proof: string }>("/console/sign-in", body, bearer)).proof);
}

/** Sign in with the `#code=...` or `#token=...` of a link, or store a read-only link's `#view=...`; then go to
 * its `to`. */
export async function followLink(): Promise<void> {
  const match = /^#(code|token|view)=([^&]+)(?:&to=(.*))?$/.exec(location.hash);
  if (!match) return;
  const [, kind, secret, to = ""] = match;
  history.replaceState(null, "", `${location.pathname}#${decodeURIComponent(to)}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
  if (kind === "view") return storeLink({ secret, session: readPlace(`#${decodeURIComponent(to)}`).session });
  try {
    await (kind === "token" ? signIn({}, decodeURIComponent(secret)) : signIn({ code: secret }));
  } catch (error) {
    const reason = error instanceof ApiError && error.status !== 401 ? error.message : REJECTED[kind];
    if (!isSignedIn()) storeProof(null, reason);
  }
}

const REJECTED: Record<string, string> = {
  code: "This link was used before or has expired. Run “contextrender console” for a new one, or sign in.",
  token: "The token of this link has expired. Sign in again.",
};

export async function logIn(username: string, password: string): Promise<void> {
  const { token } = await post<{ token: string }>("/user/login", { username, password });
  await signIn({}, token);
}

export async function signOut(): Promise<void> {
  if (link()) return storeLink(null, "You closed the session.");
  await post("/console/sign-out", {}).catch(() => null);
  storeProof(null);
}

/** Return the first report of a walker. A rejected token leads back to the login page. */
export async function request<T>(walker: string, fields: object, signal?: AbortSignal): Promise<T> {
  try {
    return (await post<{ reports: T[] }>(`/walker/${walker}`, fields, link()?.secret, signal)).reports[0];
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      if (link()) storeLink(null, "This link has expired or was revoked.");
      else storeProof(null, "Your session has ended. Sign in again.");
    }
    throw error;
  }
}

/** Repeat a request until its report is complete, and pass on each report. */
export async function requestComplete<T>(
  walker: string, fields: object, signal: AbortSignal, report: (value: T) => void = () => undefined,
): Promise<T> {
  for (;;) {
    const value = await request<T>(walker, fields, signal);
    report(value);
    if ((value as { complete?: boolean }).complete !== false) return value;
  }
}

async function post<T>(path: string, body: object, bearer = "", signal?: AbortSignal): Promise<T> {
  let reply: Response;
  try {
    reply = await fetch(path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(bearer ? { authorization: `Bearer ${bearer}` } : { "x-contextrender-console": preference("proof") ?? "" }),
      },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The service does not respond. Is it running?");
  }
  const parsed = await reply.json().catch(() => null);
  if (!reply.ok || parsed === null) {
    throw new ApiError(reply.status, parsed?.error?.message ?? `The service answered ${reply.status}.`);
  }
  return parsed;
}
