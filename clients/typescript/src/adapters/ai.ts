/**
 * Vercel AI SDK: a middleware for a model, or a `prepareStep` for `generateText`, `streamText` and
 * agents. Use one of them; the SDK's own messages stay whole.
 *
 *     wrapLanguageModel({ model, middleware: contextRenderMiddleware({ session: "run-17" }) })
 *     new ToolLoopAgent({ model, tools, prepareStep: contextRenderStep({ session: "run-17" }) })
 */

import { PromptTranscript, type PromptMessage } from "./ai_prompt.js";
import { fitter, type AdapterOptions } from "./fitter.js";

/** What is read of a model call's parameters. */
interface Params {
  prompt: PromptMessage[];
  providerOptions?: Record<string, Record<string, unknown> | undefined> | undefined;
}

interface Step<M> {
  messages: M[];
  initialMessages?: M[];
  responseMessages?: readonly M[];
  experimental_steeringMessages?: readonly M[] | undefined;
  steps: readonly { response: { messages: readonly unknown[] } }[];
  model?: unknown;
}

const read = <M extends PromptMessage>(items: readonly M[]) => new PromptTranscript(items);

/**
 * Sends the model what the service chooses of the prompt. A call may name its session by
 * `providerOptions: { contextrender: { session: "run-17" } }`.
 */
export function contextRenderMiddleware(options: AdapterOptions = {}) {
  const fit = fitter(options);
  return {
    // No version of the SDK reads it, and each has another in its type.
    specificationVersion: "v4" as never,
    async transformParams<P extends Params>(call: { params: P; model?: unknown }): Promise<P> {
      const { contextrender: own, ...others } = call.params.providerOptions ?? {};
      const session = own?.["session"] as string | undefined;
      const asked = { session, model: modelId(call.model) };
      const prompt = await fit(call.params.prompt, read, asked);
      const providerOptions = own ? others : call.params.providerOptions;
      return { ...call.params, prompt, ...(providerOptions ? { providerOptions } : {}) };
    },
  };
}

/** Gives each step the messages that the service chooses. */
export function contextRenderStep(options: AdapterOptions = {}) {
  const fit = fitter(options);
  return async function prepareStep<M extends PromptMessage>(
    step: Step<M>,
  ): Promise<{ messages: M[] }> {
    const messages = await fit(wholeOf(step), read<M>, { model: modelId(step.model) });
    return { messages };
  };
}

/**
 * The whole history: from version 7 on, what one step was given is what the next one starts from.
 */
function wholeOf<M>(step: Step<M>): M[] {
  const { messages, initialMessages, responseMessages, steps } = step;
  if (!initialMessages || !responseMessages) return messages;
  const made = steps.reduce((sum, { response }) => sum + response.messages.length, 0);
  const resumed = responseMessages.slice(0, responseMessages.length - made);
  const later = steps.flatMap((done) => [...steeringOf<M>(done), ...done.response.messages]);
  return [...initialMessages, ...resumed, ...(later as M[]), ...steeringOf<M>(step)];
}

function steeringOf<M>(step: object): readonly M[] {
  return (step as Partial<Step<M>>).experimental_steeringMessages ?? [];
}

function modelId(model: unknown): string | undefined {
  if (typeof model === "string") return model.split("/").at(-1);
  return (model as { modelId?: string } | undefined)?.modelId;
}
