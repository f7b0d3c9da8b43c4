/**
 * Mastra: an input processor that fits each model call's prompt into a budget.
 *
 *     new Agent({ ..., inputProcessors: [new ContextRenderProcessor({ budget: 6000 })] })
 *
 * It works on the prompt alone: Mastra's memory keeps every message. The session is the thread.
 */

import { PromptTranscript, type PromptMessage } from "./ai_prompt.js";
import { fitter, type AdapterOptions } from "./fitter.js";

/** What is read of a model call. */
interface Request<M> {
  prompt: M[];
  model?: unknown;
  requestContext?: { get(key: string): unknown } | undefined;
}

export class ContextRenderProcessor {
  readonly id = "contextrender";
  readonly name = "ContextRender";
  readonly #fit: ReturnType<typeof fitter>;

  constructor(options: AdapterOptions = {}) {
    this.#fit = fitter(options);
  }

  /** The prompt with what the service chooses of it. */
  async processLLMRequest<M extends PromptMessage>(asked: Request<M>): Promise<{ prompt: M[] }> {
    const memory = asked.requestContext?.get("MastraMemory") as
      | { thread?: { id?: string } }
      | undefined;
    const model = (asked.model as { modelId?: string } | undefined)?.modelId;
    const read = (items: readonly M[]) => new PromptTranscript(items);
    const session = memory?.thread?.id;
    return { prompt: await this.#fit(asked.prompt, read, { session, model }) };
  }
}
