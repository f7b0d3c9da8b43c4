/**
 * An agent of the Vercel AI SDK that looks at one host after the other: node example.ts
 *
 * It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
 * `OPENAI_BASE_URL` for one that is not OpenAI's). `AS=middleware` fits within the model.
 */

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { contextRenderMiddleware, contextRenderStep } from "@contextrender/client/ai";
import { tool, ToolLoopAgent, wrapLanguageModel, type ModelMessage } from "ai";
import { z } from "zod";

const settings = { session: "ai-sdk-hosts", budget: 600, policy: "contextrender" };

const provider = createOpenAICompatible({
  name: "openai",
  baseURL: process.env["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1",
  apiKey: process.env["OPENAI_API_KEY"] ?? "",
});
const model = provider(process.env["MODEL"] ?? "gpt-4o-mini");

const look = tool({
  description: "Tell how fast a host (host_0_X, host_1_X, ...) answers, and which comes after it.",
  inputSchema: z.object({ host: z.string() }),
  execute: async ({ host }) => {
    const number = Number(host.split("_")[1]);
    const told = `It answers in ${number * 17 + 5} ms; the next is host_${number + 1}_X.\n`;
    return told + "All is well here and nothing else is to be told. ".repeat(12);
  },
});
const restart = tool({
  description: "Restart a host.",
  inputSchema: z.object({ host: z.string() }),
  execute: async () => "Done.",
});

const common = {
  instructions: "Use the tools, one host at a time.",
  tools: { look, restart },
  stopWhen: ({ steps }: { steps: unknown[] }) => steps.length >= 99,
};
const agent =
  process.env["AS"] === "middleware"
    ? new ToolLoopAgent({
        ...common,
        model: wrapLanguageModel({ model, middleware: contextRenderMiddleware(settings) }),
      })
    : new ToolLoopAgent({ ...common, model, prepareStep: contextRenderStep(settings) });

const messages: ModelMessage[] = [
  { role: "user", content: "Find out which of the first six hosts are slow." },
];
const first = await agent.generate({ messages });
console.log(first.text);

// AI SDK 6, which Node 20 gets, has all of them in `response`.
messages.push(...(first.responseMessages ?? first.response.messages));
messages.push({ role: "user", content: "And of the next three? Restart those that are slow." });
const second = await agent.stream({ messages });
console.log(await second.text);
