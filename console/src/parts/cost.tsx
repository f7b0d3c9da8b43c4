// Amounts that may be losses.
import type { ComponentChildren } from "preact";
import { dollars } from "../format";
import type { CallUsage, Price } from "../types";

/** The kinds of tokens that usage and prices have. */
const PROMPT = ["uncached", "cache_read", "cache_write", "cache_write_1h"] as const;

export const promptOf = (usage: CallUsage): number => PROMPT.reduce((sum, kind) => sum + usage[kind], 0);

export const costOf = (usage: CallUsage, price: Price): number =>
  PROMPT.reduce((sum, kind) => sum + usage[kind] * price[kind], usage.output * price.output + price.per_call);

/** An amount. A loss is red, with a word for screen readers. */
export const Signed = ({ value, children }: { value: number; children: ComponentChildren }) =>
  value < 0 ? (
    <span class="bad">
      {children} <span class="hidden">(a loss)</span>
    </span>
  ) : (
    <>{children}</>
  );

/** The cost, and the cost with full history. Null if no call has a price. */
export const Cost = ({ cost, full }: { cost: number | null; full: number | null }) =>
  cost === null || full === null ? (
    <>no price</>
  ) : (
    <Signed value={full - cost}>
      {dollars(cost)} instead of {dollars(full)}
    </Signed>
  );
