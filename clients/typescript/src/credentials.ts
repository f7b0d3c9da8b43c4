/** Where the service is and who is asking: as the local service wrote it, unless said otherwise. */

import { readFile } from "node:fs/promises";
import { homedir, platform } from "node:os";
import { join } from "node:path";
import process from "node:process";

import { NoCredentials } from "./errors.js";

const LOOPBACK = ["127.0.0.1", "localhost", "[::1]"];

/** The service's address, without a slash at its end, and the caller's token. */
export interface Credentials {
  url: string;
  token: string;
}

/**
 * Address and token: as given, else from `CONTEXTRENDER_URL` and `CONTEXTRENDER_TOKEN`, else those
 * of the local service. Its token is never sent to another machine. Throws NoCredentials.
 */
export async function resolveCredentials(given: Partial<Credentials>): Promise<Credentials> {
  const env = process.env;
  const url = (given.url || env["CONTEXTRENDER_URL"] || "").replace(/\/+$/, "");
  const token = given.token || env["CONTEXTRENDER_TOKEN"] || "";
  if (url && token) return direct({ url, token });
  const path = join(dataDir(), "credentials.json");
  const local = await stored(path);
  if (url && !token && !isLoopback(url)) {
    throw missing(`The local service's token is not for ${url}: set CONTEXTRENDER_TOKEN.`);
  }
  return direct({ url: url || local.url, token: token || local.token });
}

async function stored(path: string): Promise<Credentials> {
  try {
    const { url, token } = JSON.parse(await readFile(path, "utf8"));
    if (typeof url === "string" && typeof token === "string") return { url, token };
  } catch {
    // Said below: whatever the reason, there are none.
  }
  const what = "start `contextrender serve`, or set CONTEXTRENDER_URL and CONTEXTRENDER_TOKEN";
  throw missing(`There are no credentials in ${path}: ${what}.`);
}

/** `CONTEXTRENDER_DATA`, or this user's own folder for application data. */
function dataDir(): string {
  const env = process.env;
  const named = env["CONTEXTRENDER_DATA"];
  if (named) return named.replace(/^~(?=\/|$)/, homedir());
  if (platform() === "win32") {
    return join(env["LOCALAPPDATA"] || join(homedir(), "AppData", "Local"), "contextrender");
  }
  if (platform() === "darwin") {
    return join(homedir(), "Library", "Application Support", "contextrender");
  }
  return join(env["XDG_DATA_HOME"] || join(homedir(), ".local", "share"), "contextrender");
}

/** Bun and Deno send even what is for this machine to HTTP_PROXY, unless NO_PROXY has it. */
function direct(found: Credentials): Credentials {
  const env = process.env;
  const exempt = (env["NO_PROXY"] || env["no_proxy"] || "").split(",").map((host) => host.trim());
  const { hostname } = new URL(found.url);
  const proxied = readsProxies() && (env["HTTP_PROXY"] || env["http_proxy"]);
  if (proxied && isLoopback(found.url) && !exempt.includes(hostname) && !exempt.includes("*")) {
    const sentence = `HTTP_PROXY would get what is for ${hostname}: add it to NO_PROXY.`;
    throw new NoCredentials("no_proxy_lacks_loopback", 0, sentence);
  }
  return found;
}

function readsProxies(): boolean {
  const { versions, env } = process;
  return "bun" in versions || "deno" in versions || Boolean(env["NODE_USE_ENV_PROXY"]);
}

function isLoopback(url: string): boolean {
  return LOOPBACK.includes(new URL(url).hostname);
}

function missing(sentence: string): NoCredentials {
  return new NoCredentials("no_credentials", 0, sentence);
}
