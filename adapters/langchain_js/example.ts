/**
 * A LangChain.js agent that looks at one host after the other: node example.ts
 *
 * It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
 * `OPENAI_BASE_URL` for one that is not OpenAI's).
 */

import { contextRender } from "@contextrender/client/langchain";
import { MemorySaver } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, createMiddleware, tool } from "langchain";
import { z } from "zod";

const look = tool(
  ({ host }) => {
    const number = Number(host.split("_")[1]);
    const told = `It answers in ${number * 17 + 5} ms; the next is host_${number + 1}_X.\n`;
    return told + "All is well here and nothing else is to be told. ".repeat(12);
  },
  {
    name: "look",
    description: "Tell how fast a host (host_0_X, host_1_X, ...) answers, and which comes next.",
    schema: z.object({ host: z.string() }),
  },
);
const restart = tool(() => "Done.", {
  name: "restart",
  description: "Restart a host.",
  schema: z.object({ host: z.string() }),
});

const baseURL = process.env["OPENAI_BASE_URL"];
const agent = createAgent({
  model: new ChatOpenAI({
    model: process.env["MODEL"] ?? "gpt-4o-mini",
    ...(baseURL ? { configuration: { baseURL } } : {}),
  }),
  tools: [look, restart],
  systemPrompt: "Use the tools, one host at a time.",
  middleware: [createMiddleware(contextRender({ budget: 600, policy: "contextrender" }))],
  checkpointer: new MemorySaver(),
});
const where = { configurable: { thread_id: "langchain-js-hosts" }, recursionLimit: 99 };

const first = "Find out which of the first six hosts are slow.";
const found = await agent.invoke({ messages: [{ role: "user", content: first }] }, where);
console.log(found.messages.at(-1)?.text);

const second = "And of the next three? Restart those that are slow.";
const more = await agent.invoke({ messages: [{ role: "user", content: second }] }, where);
console.log(more.messages.at(-1)?.text);
