// Amounts that may be losses.
import type { ComponentChildren } from "preact";
import { dollars } from "../format";

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
