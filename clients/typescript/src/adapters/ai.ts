/**
 * Vercel AI SDK: a middleware for a model, or a `prepareStep` for `generateText`, `streamText` and
 * agents. Use one of them. The SDK's own messages do not change.
 *
 *     wrapLanguageModel({ model, middleware: contextRenderMiddleware({ session: "run-17" }) })
 *     new ToolLoopAgent({ model, tools, prepareStep: contextRenderStep({ session: "run-17" }) })
 */

import { modelId, readPrompt, type PromptMessage } from "./ai_prompt.js";
import { fitter, type AdapterOptions } from "./fitter.js";

/** The parameters of a model call that are read. */
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

/**
 * Returns a middleware that sends the model the prompt within its budget. A call may name its
 * session by `providerOptions: { contextrender: { session: "run-17" } }`.
 */
export function contextRenderMiddleware(options: AdapterOptions = {}) {
  const fit = fitter(options);
  return {
    // No version of the SDK reads this field, and each demands another value.
    specificationVersion: "v4" as never,
    async transformParams<P extends Params>(call: { params: P; model?: unknown }): Promise<P> {
      const { contextrender: ownOptions, ...others } = call.params.providerOptions ?? {};
      const session = ownOptions?.["session"] as string | undefined;
      const prompt = await fit(call.params.prompt, readPrompt, { session, model: modelId(call.model) });
      const providerOptions = ownOptions ? others : call.params.providerOptions;
      return { ...call.params, prompt, ...(providerOptions ? { providerOptions } : {}) };
    },
  };
}

/** Returns a `prepareStep` that gives each step the messages within the budget. */
export function contextRenderStep(options: AdapterOptions = {}) {
  const fit = fitter(options);
  return async function prepareStep<M extends PromptMessage>(
    step: Step<M>,
  ): Promise<{ messages: M[] }> {
    const messages = await fit(historyOf(step), readPrompt<M>, { model: modelId(step.model) });
    return { messages };
  };
}

/**
 * Returns the whole history of a step.
 *
 * From version 7 on, `messages` are the messages that the previous step sent, perhaps without old
 * results. So the history is put together from the other fields.
 */
function historyOf<M>(step: Step<M>): M[] {
  const { messages, initialMessages, responseMessages, steps } = step;
  if (!initialMessages || !responseMessages) return messages;
  // `responseMessages` end with those of the earlier `steps`. Only the steps have the steering
  // messages between them.
  const stepMessageCount = steps.reduce((sum, { response }) => sum + response.messages.length, 0);
  const beforeSteps = responseMessages.slice(0, responseMessages.length - stepMessageCount);
  const ofSteps = steps.flatMap((past) => [...steeringOf<M>(past), ...past.response.messages]);
  return [...initialMessages, ...beforeSteps, ...(ofSteps as M[]), ...steeringOf<M>(step)];
}

/** Returns the messages that a person added before a step, while the agent was running. */
function steeringOf<M>(step: object): readonly M[] {
  return (step as Partial<Step<M>>).experimental_steeringMessages ?? [];
}
