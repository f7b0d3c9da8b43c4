/** Where the service is and who is asking: the local service's, written by its server. */

import { readFile } from "node:fs/promises";
import { homedir, platform } from "node:os";
import { join } from "node:path";

import { ServiceError } from "./errors.js";

const LOOPBACK = ["127.0.0.1", "localhost", "[::1]"];

/** @typedef {{ url: string, token: string }} Credentials */

/**
 * Address and token: as given, else from the environment, else those of the local server.
 *
 * The local server's token is never sent to another machine.
 *
 * @param {{ url?: string, token?: string }} given
 * @returns {Promise<Credentials>}
 */
export async function credentials(given) {
  const env = process.env;
  const url = (given.url || env.CONTEXTRENDER_URL || "").replace(/\/+$/, "");
  const token = given.token || env.CONTEXTRENDER_TOKEN || "";
  if (url && token) return checked({ url, token });
  const local = await stored();
  if (url && !token && !isLoopback(url)) throw new ServiceError("no_credentials");
  return checked({ url: url || local.url, token: token || local.token });
}

/** @returns {Promise<Credentials>} */
async function stored() {
  try {
    const { url, token } = JSON.parse(await readFile(join(dataDir(), "credentials.json"), "utf8"));
    return { url: String(url), token: String(token) };
  } catch {
    throw new ServiceError("no_credentials");
  }
}

/** `CONTEXTRENDER_DATA`, or this user's own folder for application data. */
function dataDir() {
  const env = process.env;
  if (env.CONTEXTRENDER_DATA) return env.CONTEXTRENDER_DATA.replace(/^~(?=\/|$)/, homedir());
  return join(baseDir(env), "contextrender");
}

/** @param {NodeJS.ProcessEnv} env */
function baseDir(env) {
  if (platform() === "win32") return env.LOCALAPPDATA || join(homedir(), "AppData", "Local");
  if (platform() === "darwin") return join(homedir(), "Library", "Application Support");
  return env.XDG_DATA_HOME || join(homedir(), ".local", "share");
}

/**
 * opencode's `fetch` sends even what is for this machine to HTTP_PROXY, unless NO_PROXY has it.
 *
 * @param {Credentials} found
 */
function checked(found) {
  const env = process.env;
  const direct = (env.NO_PROXY || env.no_proxy || "").split(",").map((host) => host.trim());
  const host = new URL(found.url).hostname;
  const proxied = env.HTTP_PROXY || env.http_proxy;
  if (proxied && isLoopback(found.url) && !direct.includes(host) && !direct.includes("*")) {
    throw new ServiceError("no_proxy_lacks_loopback");
  }
  return found;
}

/** @param {string} url */
function isLoopback(url) {
  return LOOPBACK.includes(new URL(url).hostname);
}
