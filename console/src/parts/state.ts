// What a session is doing, as far as its last message tells.
import { ago } from "../format";

/** Models answer within minutes: a run that has waited for longer has most likely ended. */
export const QUIET_SECONDS = 900;

export interface State {
  text: string;
  /** Whether an answer may be on its way. */
  live: boolean;
}

/** `at`: when the session was last written, in seconds since 1970; null where that is not known yet. */
export function stateOf(waiting: boolean, at: number | null, now = Date.now() / 1000): State {
  if (!waiting) return { text: "Idle", live: false };
  if (at === null || now - at < QUIET_SECONDS) return { text: "Model’s turn", live: at !== null };
  return { text: `No answer: stopped ${ago(at, now)}`, live: false };
}
