// Amounts that may be losses.
import type { ComponentChildren } from "preact";
import { dollars } from "../format";

/** A loss is red, and says so to those who do not see it. */
export const Signed = ({ value, children }: { value: number; children: ComponentChildren }) =>
  value < 0 ? (
    <span class="loss">
      {children} <span class="hidden">(a loss)</span>
    </span>
  ) : (
    <>{children}</>
  );

export const Cost = ({ cost, full }: { cost: number; full: number }) => (
  <Signed value={full - cost}>
    {dollars(cost)} instead of {dollars(full)}
  </Signed>
);
