// Amounts that may be losses.
import type { ComponentChildren } from "preact";
import { dollars } from "../format";

/** A loss is red, and says so to those who do not see it. */
export const Signed = ({ value, children }: { value: number; children: ComponentChildren }) =>
  value < 0 ? (
    <span class="bad">
      {children} <span class="hidden">(a loss)</span>
    </span>
  ) : (
    <>{children}</>
  );

/** The cost beside that of the full history; null if no call has a price. */
export const Cost = ({ cost, full }: { cost: number | null; full: number | null }) =>
  cost === null || full === null ? (
    <>no price</>
  ) : (
    <Signed value={full - cost}>
      {dollars(cost)} instead of {dollars(full)}
    </Signed>
  );
