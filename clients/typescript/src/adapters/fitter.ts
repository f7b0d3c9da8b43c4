/** What every adapter asks before a model call. Nothing in it fails the call. */

import type { Transcript } from "../chat.js";
import { ContextRender, type ClientOptions } from "../client.js";
import { reasonOf } from "../errors.js";
import type { FitOptions } from "../fitting.js";

/** A client's options and a rendering's; `deadline` in milliseconds. */
export interface AdapterOptions extends Omit<FitOptions, "failOpen">, ClientOptions {
  /** One that is there already, in place of its options. */
  client?: ContextRender;
  /** Names the session, whatever the runtime calls it. */
  session?: string | undefined;
}

/** What the runtime says of a model call, where it does. */
export interface Asked {
  session?: string | undefined;
  model?: string | undefined;
}

export class Fitter {
  readonly #client: ContextRender;
  readonly #options: AdapterOptions;

  constructor(options: AdapterOptions) {
    this.#options = options;
    this.#client = options.client ?? new ContextRender(options);
  }

  /** The history to send, as `read` reads it; all of it when anything goes wrong. */
  async fit<T>(
    whole: readonly T[],
    read: (items: readonly T[]) => Transcript<T>,
    asked: Asked = {},
  ): Promise<T[]> {
    const { budget, policy, parameters, deadline, model = asked.model } = this.#options;
    const { keep, keep_tools, bypass_tools, recalls } = this.#options;
    const pins = { keep, keep_tools, bypass_tools, recalls };
    const settings = { budget, policy, parameters, deadline, model, ...pins };
    const session = this.#options.session || asked.session;
    try {
      return (await this.#client.fit(session, whole, settings, read(whole))).messages;
    } catch (failure) {
      this.#client.failed(reasonOf(failure));
      return [...whole];
    }
  }
}
