/**
 * Mastra: an input processor that fits each model call's prompt into a budget.
 *
 *     new Agent({ ..., inputProcessors: [new ContextRenderProcessor({ budget: 6000 })] })
 *
 * It changes only the prompt: Mastra's memory has every message. The session is the thread.
 */

import { ContextRender } from "../client.js";
import { modelId, readPrompt, type PromptMessage } from "./ai_prompt.js";
import { fitter, type AdapterOptions } from "./fitter.js";

/** The fields of a model call that are read. */
interface Request<M> {
  prompt: M[];
  model?: unknown;
  requestContext?: { get(key: string): unknown } | undefined;
}

export class ContextRenderProcessor {
  readonly id = "contextrender";
  readonly name = "ContextRender";
  readonly #client: ContextRender;
  readonly #fit: ReturnType<typeof fitter>;
  #isSupported = false;

  constructor(options: AdapterOptions = {}) {
    this.#client = options.client ?? new ContextRender(options);
    this.#fit = fitter({ ...options, client: this.#client });
  }

  /** Counts a failure if Mastra did not call `processLLMRequest` in the step before. */
  processInputStep({ stepNumber }: { stepNumber: number }): void {
    if (stepNumber && !this.#isSupported) this.#client.addFailure("needs Mastra 1.33 or newer");
  }

  /** Returns the prompt within its budget. */
  async processLLMRequest<M extends PromptMessage>(request: Request<M>): Promise<{ prompt: M[] }> {
    this.#isSupported = true;
    const memory = request.requestContext?.get("MastraMemory") as
      | { thread?: { id?: string } }
      | undefined;
    const call = { session: memory?.thread?.id, model: modelId(request.model) };
    return { prompt: await this.#fit(request.prompt, readPrompt<M>, call) };
  }
}
