/**
 * What the core and its driver say to each other: a flow yields what is to be done next and gets
 * back what came of it. Nothing in a flow is I/O, so it runs in tests without any.
 */

import type { Credentials } from "./credentials.js";
import { reasonOf, Unreachable } from "./errors.js";

/**
 * A JSON body to POST, within `milliseconds` unless they are infinite. `session`, in a header, lets
 * a balancer prefer the process that has that session in memory.
 */
export interface Exchange {
  kind: "exchange";
  url: string;
  path: string;
  token: string;
  body: string;
  session: string;
  milliseconds: number;
}

/** A pause before the next step. */
export interface Wait {
  kind: "wait";
  milliseconds: number;
}

/** Address and token are to be found, now: the service may have been started in the meantime. */
export interface Find {
  kind: "find";
}

export type Step = Exchange | Wait | Find;

/** What an exchange ended in; of a `find`, the credentials. */
export interface Answer {
  status: number;
  body: string;
  credentials?: Credentials;
}

export type Flow<T> = Generator<Step, T, Answer>;

/** Does a step for real, or rejects; a lost exchange rejects with `Unreachable`. */
export type Act = (step: Step) => Promise<Answer>;

/** What a flow comes to when `act` does its steps. Rejects with what the flow throws. */
export async function drive<T>(flow: Flow<T>, act: Act): Promise<T> {
  let step = flow.next();
  while (!step.done) {
    let answer: Answer;
    try {
      answer = await act(step.value);
    } catch (failure) {
      step = flow.throw(failure);
      continue;
    }
    step = flow.next(answer);
  }
  return step.value;
}

/** What a failure to get an answer is: `late` where its time was over. */
export function lost(url: string, failure: unknown, late: boolean): Unreachable {
  const sentence = `No answer from ${url}: ${late ? "it took too long" : reasonOf(failure)}.`;
  return new Unreachable(late ? "late" : "unreachable", 0, sentence);
}
