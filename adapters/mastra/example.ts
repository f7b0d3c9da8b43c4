/**
 * A Mastra agent that looks at one host after the other: node example.ts
 *
 * It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
 * `OPENAI_BASE_URL` for one that is not OpenAI's).
 */

import { ContextRenderProcessor } from "@contextrender/client/mastra";
import { Agent } from "@mastra/core/agent";
import { InMemoryStore } from "@mastra/core/storage";
import { createTool } from "@mastra/core/tools";
import { Memory } from "@mastra/memory";
import { z } from "zod";

const look = createTool({
  id: "look",
  description: "Tell how fast a host (host_0_X, host_1_X, ...) answers, and which comes after it.",
  inputSchema: z.object({ host: z.string() }),
  execute: async ({ host }) => {
    const number = Number(host.split("_")[1]);
    const told = `It answers in ${number * 17 + 5} ms; the next is host_${number + 1}_X.\n`;
    return told + "All is well here and nothing else is to be told. ".repeat(12);
  },
});
const restart = createTool({
  id: "restart",
  description: "Restart a host.",
  inputSchema: z.object({ host: z.string() }),
  execute: async () => "Done.",
});

const agent = new Agent({
  id: "hosts",
  name: "hosts",
  model: {
    id: `openai/${process.env["MODEL"] ?? "gpt-4o-mini"}`,
    url: process.env["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1",
    apiKey: process.env["OPENAI_API_KEY"] ?? "",
  },
  instructions: "Use the tools, one host at a time.",
  tools: { look, restart },
  // All of the thread's messages: which of them the model sees is the processor's choice.
  memory: new Memory({ storage: new InMemoryStore(), options: { lastMessages: 10_000 } }),
  inputProcessors: [new ContextRenderProcessor({ budget: 600, policy: "contextrender" })],
});
const memory = { thread: "mastra-hosts", resource: "me" };

const first = "Find out which of the first six hosts are slow.";
const found = await agent.generate(first, { memory, maxSteps: 99 });
console.log(found.text);

const second = "And of the next three? Restart those that are slow.";
const more = await agent.stream(second, { memory, maxSteps: 99 });
console.log(await more.text);
