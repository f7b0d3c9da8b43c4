import { expect, test } from "vitest";
import { STOPPED_SECONDS, describeState } from "../src/session";

const NOW = 1_800_000_000;

test.each([
  ["the model has spoken", false, NOW, "Idle", false],
  ["it may be speaking", true, NOW - 5, "Model’s turn", true],
  ["it may still be", true, NOW - STOPPED_SECONDS + 1, "Model’s turn", true],
  ["nobody waits for it any more", true, NOW - 3 * 3600, "No answer: stopped 3 h ago", false],
  ["nothing is known yet", true, null, "Model’s turn", false],
] as const)("%s", (_, waiting, at, text, live) => expect(describeState(waiting, at, NOW)).toEqual({ text, live }));
