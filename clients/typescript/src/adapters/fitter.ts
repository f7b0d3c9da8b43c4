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
interface Asked {
  session?: string | undefined;
  model?: string | undefined;
}

/** The history to send, as `read` reads it; all of it when anything goes wrong. */
export function fitter(options: AdapterOptions) {
  const { budget, policy, parameters, deadline, pinned_calls, pinned_tools, bypass_tools, recalls } = options;
  const settings = { budget, policy, parameters, deadline, pinned_calls, pinned_tools, bypass_tools, recalls };
  const client = options.client ?? new ContextRender(options);
  return async <T>(
    whole: readonly T[],
    read: (items: readonly T[]) => Transcript<T>,
    asked: Asked,
  ): Promise<T[]> => {
    const session = options.session || asked.session;
    const model = options.model ?? asked.model;
    try {
      return (await client.fit(session, whole, { ...settings, model }, read(whole))).messages;
    } catch (failure) {
      client.failed(reasonOf(failure));
      return [...whole];
    }
  };
}
