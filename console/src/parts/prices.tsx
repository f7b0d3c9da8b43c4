// What is said of dollars.
import { plural } from "../format";

/** Which bill a cost is of that says "counted". */
export const COUNTED =
  "Dollars for the tokens counted here, at each call’s own model’s price. What the prompt before had is taken from the provider’s cache; where writing to it is charged, the rest is taken as written.";

interface Props {
  unpriced: number;
  /** Models, and whose price they were given. */
  pricedAs: [string, string][];
}

/** What is said of prices that are missing or another model’s. */
export function Prices({ unpriced, pricedAs }: Props) {
  return (
    <>
      {unpriced > 0 && (
        <p class="hint">
          {plural(unpriced, "call")} of models without a price: their dollars are in no sum. Set one with <code>contextrender price</code>.
        </p>
      )}
      {pricedAs.map(([model, other]) => (
        <p key={model} class="hint">
          {model} is priced as {other}.
        </p>
      ))}
    </>
  );
}
