/** The client over HTTP: with a scripted server, and with a real one if it is configured. */

import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { afterEach, beforeEach, test } from "node:test";

import { ContextRender, NoCredentials, NotFound } from "@contextrender/client";

const { CONTEXTRENDER_URL: REAL, CONTEXTRENDER_TOKEN: TOKEN } = process.env;
const HISTORY = [{ role: "user", content: "Look." }];
const REPLY = { omitted: [], substitutes: [], dropped_turns: [], truncated_messages: [], digest: "d", plan: [] };

/** @type {(response: import("node:http").ServerResponse) => void} */
let answer;
/** @type {any[]} */
let asked = [];
let url = "";
const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  const { authorization: token, "x-contextrender-session": named } = request.headers;
  asked.push({ path: request.url, token, named, ...JSON.parse(body) });
  answer(response);
});

beforeEach(async () => {
  for (const name of Object.keys(process.env)) {
    if (/^CONTEXTRENDER_|_proxy$/i.test(name)) delete process.env[name];
  }
  process.env["CONTEXTRENDER_DATA"] = await mkdtemp(join(tmpdir(), "contextrender-"));
  asked = [];
  answer = (response) => void response.end(JSON.stringify({ reports: [REPLY] }));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
});

afterEach(() => {
  server.closeAllConnections?.();
  return new Promise((resolve) => server.close(() => resolve(null)));
});

test("credentials are the local service's, and its token stays on this machine", async () => {
  await assert.rejects(new ContextRender({ url }).render("s", HISTORY), NoCredentials);
  const path = join(String(process.env["CONTEXTRENDER_DATA"]), "credentials.json");
  await writeFile(path, JSON.stringify({ url, token: "local" }));
  await new ContextRender().render("s", HISTORY);
  await new ContextRender({ url: `${url}/`, token: "own" }).render("s", HISTORY);
  const told = asked.map(({ path, token }) => [path, token]);
  assert.deepEqual(told, [
    ["/walker/render", "Bearer local"],
    ["/walker/render", "Bearer own"],
  ]);
  const elsewhere = new ContextRender({ url: "http://service.example" });
  await assert.rejects(elsewhere.render("s", HISTORY), NoCredentials);
});

test("requests to this machine bypass proxies", async () => {
  process.env["HTTP_PROXY"] = "http://127.0.0.1:9";
  const client = new ContextRender({ url, token: "t" });
  if ("bun" in process.versions || "deno" in process.versions) {
    await assert.rejects(client.render("s", HISTORY), { code: "no_proxy_lacks_loopback" });
    process.env["NO_PROXY"] = "localhost, 127.0.0.1";
  }
  await client.render("s", HISTORY);
  assert.equal(asked.length, 1);
});

test("a header has the session's name", async () => {
  const client = new ContextRender({ url, token: "t" });
  for (const session of ["my run/1", "é\ud800"]) await client.fit(session, HISTORY);
  await client.listSessions();
  const named = asked.map((one) => one.named);
  assert.deepEqual(named, ["my%20run%2F1", "%C3%A9%EF%BF%BD", undefined]);
});

/** @type {[string, (response: import("node:http").ServerResponse) => void][]} */
const FAILURES = [
  ["unexpected_reply", (response) => void response.writeHead(500).end("<html>")],
  ["unreachable", (response) => void response.destroy()],
  ["unreachable", (response) => void response.writeHead(302, { location: "/other" }).end()],
  ["late", () => {}],
  ["late", (response) => void response.write('{"reports": [')],
];
for (const [number, [reason, broken]] of FAILURES.entries()) {
  test(`failure ${number} returns the full history: ${reason}`, async () => {
    /** @type {string[]} */
    const lines = [];
    const log = (/** @type {string} */ line) => void lines.push(line);
    const client = new ContextRender({ url, token: "t", log, retries: 0 });
    answer = broken;
    const deadline = reason === "late" ? 50 : 30_000;
    const fitted = await client.fit("s", HISTORY, { deadline });
    assert.deepEqual([fitted.messages, fitted.failure], [HISTORY, reason]);
    assert.deepEqual(lines, [`history sent unchanged (${reason}), 1 so far`]);
  });
}

test("a real service omits, recalls and explains results", { skip: !REAL }, async () => {
  const client = new ContextRender({ url: REAL, token: TOKEN });
  const session = `ts-${process.pid}-${Date.now()}`;
  const history = [{ role: "user", content: "Look at the files." }];
  const shares = [];
  for (let step = 0; step < 20; step += 1) {
    const id = `call_${step}`;
    const found = `file_${step}_x says: ${"all is well here; ".repeat(30)}`;
    const body = { name: "read", arguments: `{"path": "/tmp/file_${step}_x"}` };
    const call = { id, type: "function", function: body };
    const said = { role: "assistant", content: null, tool_calls: [call] };
    history.push(/** @type {any} */ (said), /** @type {any} */ ({ role: "tool", tool_call_id: id, content: found }));
    const options = { budget: 600, policy: "contextrender_excerpts", deadline: 30_000 };
    const { messages, failure } = await client.fit(session, history, options);
    assert.equal(failure, "");
    assert.ok(messages.every((message) => history.includes(message) || message.role === "tool"));
    shares.push(messages.length / history.length);
  }
  assert.ok(Math.min(...shares) < 0.5, String(shares));
  const { results } = await client.recall(session, { results: [2] });
  assert.equal(results[0]?.message["content"], history[2]?.content);
  const { results: explained } = await client.explain(session);
  assert.equal(explained.length, 20);
  const { sessions } = await client.listSessions({ query: session });
  assert.equal(sessions[0]?.messages, history.length);
  const kept = await client.exportSession(session);
  await client.deleteSession(session);
  await assert.rejects(client.inspectSession(session), NotFound);
  await client.importSession(kept, `${session}-again`);
  const { session: again } = await client.inspectSession(`${session}-again`);
  assert.equal(again.messages, history.length);
});

test("a real service separates unnamed histories with equal prefixes", { skip: !REAL }, async () => {
  const hello = `hello ${process.pid}-${Date.now()}`;
  /** @param {string} who */
  const historyOf = (who) => [
    { role: "user", content: hello },
    { role: "assistant", content: "Hello." },
    { role: "user", content: `I am ${who}.` },
  ];
  // The last one may be the beginning of another conversation.
  const longer = [[...historyOf("A"), { role: "user", content: "on" }], historyOf("B"), historyOf("A").slice(0, 1)];
  const client = new ContextRender({ url: REAL, token: TOKEN });
  // One client for all, then one for each: every client gets the same names.
  const others = longer.map((history) => ({ history, one: new ContextRender({ url: REAL, token: TOKEN }) }));
  const all = [historyOf("A"), ...longer].map((history) => ({ history, one: client }));
  for (const { one, history } of [...all, ...others]) {
    const { failure } = await one.fit(null, history, { deadline: 30_000 });
    assert.equal(failure, "");
  }
  const { sessions } = await client.listSessions({ query: hello });
  assert.deepEqual(sessions.map(({ branches }) => branches), [1, 1, 1]);
});
