/** The call of the service that all adapters make before a model call. It never fails that call. */

import type { Transcript } from "../chat.js";
import { ContextRender, type ClientOptions } from "../client.js";
import { reasonOf } from "../errors.js";
import type { FitOptions } from "../fitting.js";

/** The options of the client and of the rendering. `deadline` is in milliseconds. */
export interface AdapterOptions extends Omit<FitOptions, "failOpen">, ClientOptions {
  /** An existing client, instead of its options. */
  client?: ContextRender;
  /** The session's name, instead of the runtime's. */
  session?: string | undefined;
}

/** The session and the model that the runtime names for a call, if it does. */
interface CallInfo {
  session?: string | undefined;
  model?: string | undefined;
}

/** Returns a function that returns the history to send; after an error it is the full history. */
export function fitter(options: AdapterOptions) {
  const { budget, policy, parameters, deadline, pinned_calls, pinned_tools, bypass_tools, recalls } = options;
  const settings = { budget, policy, parameters, deadline, pinned_calls, pinned_tools, bypass_tools, recalls };
  const client = options.client ?? new ContextRender(options);
  return async <T>(
    history: readonly T[],
    read: (items: readonly T[]) => Transcript<T>,
    call: CallInfo,
  ): Promise<T[]> => {
    const session = options.session || call.session;
    const model = options.model ?? call.model;
    try {
      return (await client.fit(session, history, { ...settings, model }, read(history))).messages;
    } catch (failure) {
      client.addFailure(reasonOf(failure));
      return [...history];
    }
  };
}
