/** The service's address and the caller's token, from options, environment or the local service. */

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
 * Returns the service's address and token.
 *
 * Takes each from `options`, from `CONTEXTRENDER_URL` or `CONTEXTRENDER_TOKEN`, or from the file of
 * the local service, in this order. The local service's token is never sent to another machine.
 * Throws NoCredentials if the address or its token is not found.
 */
export async function resolveCredentials(options: Partial<Credentials>): Promise<Credentials> {
  const env = process.env;
  const url = (options.url || env["CONTEXTRENDER_URL"] || "").replace(/\/+$/, "");
  const token = options.token || env["CONTEXTRENDER_TOKEN"] || "";
  if (url && token) return checkProxy({ url, token });
  const path = join(dataDir(), "credentials.json");
  const local = await readStored(path);
  if (url && !token && !isLoopback(url)) {
    throw noCredentials(`The local service's token is not for ${url}: set CONTEXTRENDER_TOKEN.`);
  }
  return checkProxy({ url: url || local.url, token: token || local.token });
}

/** Returns the credentials that the local service wrote. Throws NoCredentials if there are none. */
async function readStored(path: string): Promise<Credentials> {
  try {
    const { url, token } = JSON.parse(await readFile(path, "utf8"));
    if (typeof url === "string" && typeof token === "string") return { url, token };
  } catch {
    // The error below is for a missing file and for an unreadable one.
  }
  const advice = "start `contextrender serve`, or set CONTEXTRENDER_URL and CONTEXTRENDER_TOKEN";
  throw noCredentials(`There are no credentials in ${path}: ${advice}.`);
}

/** Returns `CONTEXTRENDER_DATA`, or this user's own folder for application data. */
function dataDir(): string {
  const env = process.env;
  const folder = env["CONTEXTRENDER_DATA"];
  if (folder) return folder.replace(/^~(?=\/|$)/, homedir());
  if (platform() === "win32") {
    return join(env["LOCALAPPDATA"] || join(homedir(), "AppData", "Local"), "contextrender");
  }
  if (platform() === "darwin") {
    return join(homedir(), "Library", "Application Support", "contextrender");
  }
  return join(env["XDG_DATA_HOME"] || join(homedir(), ".local", "share"), "contextrender");
}

/**
 * Returns the credentials; throws NoCredentials if a network proxy would get them.
 *
 * Bun and Deno send requests for this machine to HTTP_PROXY, too, unless NO_PROXY names the host.
 */
function checkProxy(credentials: Credentials): Credentials {
  const env = process.env;
  const exempt = (env["NO_PROXY"] || env["no_proxy"] || "").split(",").map((host) => host.trim());
  const { hostname } = new URL(credentials.url);
  const hasProxy = readsProxies() && (env["HTTP_PROXY"] || env["http_proxy"]);
  const isExempt = exempt.includes(hostname) || exempt.includes("*");
  if (hasProxy && isLoopback(credentials.url) && !isExempt) {
    const sentence = `HTTP_PROXY would get the requests for ${hostname}: add it to NO_PROXY.`;
    throw new NoCredentials("no_proxy_lacks_loopback", 0, sentence);
  }
  return credentials;
}

/** Returns whether this runtime sends requests to the network proxies of the environment. */
function readsProxies(): boolean {
  const { versions, env } = process;
  return "bun" in versions || "deno" in versions || Boolean(env["NODE_USE_ENV_PROXY"]);
}

function isLoopback(url: string): boolean {
  return LOOPBACK.includes(new URL(url).hostname);
}

function noCredentials(sentence: string): NoCredentials {
  return new NoCredentials("no_credentials", 0, sentence);
}
