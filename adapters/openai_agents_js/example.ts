/**
 * An agent of the OpenAI Agents SDK that looks at one host after the other: node example.ts
 *
 * It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
 * `OPENAI_BASE_URL` for one that is not OpenAI's). `API=chat_completions` is the other API.
 */

import { contextRenderFilter } from "@contextrender/client/openai-agents";
import {
  Agent,
  MemorySession,
  Runner,
  setOpenAIAPI,
  setTracingDisabled,
  tool,
} from "@openai/agents";
import { z } from "zod";

const look = tool({
  name: "look",
  description: "Tell how fast a host (host_0_X, host_1_X, ...) answers, and which comes after it.",
  parameters: z.object({ host: z.string() }),
  execute: async ({ host }) => {
    const number = Number(host.split("_")[1]);
    const told = `It answers in ${number * 17 + 5} ms; the next is host_${number + 1}_X.\n`;
    return told + "All is well here and nothing else is to be told. ".repeat(12);
  },
});
const restart = tool({
  name: "restart",
  description: "Restart a host.",
  parameters: z.object({ host: z.string() }),
  execute: async () => "Done.",
});

setOpenAIAPI(process.env["API"] === "chat_completions" ? "chat_completions" : "responses");
setTracingDisabled(true);
const agent = new Agent({
  name: "hosts",
  model: process.env["MODEL"] ?? "gpt-4o-mini",
  instructions: "Use the tools, one host at a time.",
  tools: [look, restart],
});
const session = new MemorySession({ sessionId: "openai-agents-js-hosts" });
const fit = contextRenderFilter({ session, budget: 600, policy: "contextrender" });
const runner = new Runner({ callModelInputFilter: fit });

const first = await runner.run(agent, "Find out which of the first six hosts are slow.", {
  session,
  maxTurns: 99,
});
console.log(first.finalOutput);

const task = "And of the next three? Restart those that are slow.";
const second = await runner.run(agent, task, { session, maxTurns: 99, stream: true });
await second.completed;
console.log(second.finalOutput);

const kept = (await session.getItems()).filter((item) => item.type === "function_call_result");
console.log(`The SDK's session keeps ${kept.length} results.`);
