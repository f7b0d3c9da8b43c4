// Prices that the reader sets where the server knows none: kept in this browser, and asked with.
import { plural } from "../format";
import { preference, setPreference } from "../preferences";
import { submitted } from "./controls";

const NUMBER = "(input|cached|written|output)=\\d{1,6}(\\.\\d+)?";
/** What the server takes: anything else would leave the page without figures. */
const ONE = `\\s*(?=[^;]*input=)(?=[^;]*output=)[^;,=]+:${NUMBER}(,${NUMBER})*\\s*`;

/** Which bill a cost is of that says "counted". */
export const COUNTED =
  "Dollars for the tokens counted here, at the price of each call’s model. Tokens that the previous prompt had count as cache reads. If the provider charges for cache writes, the others count as written.";

/** As walkers take them. */
export function ownPrices(): string[] {
  const own = preference("prices");
  return own ? [own] : [];
}

interface Props {
  unpriced: number;
  /** Models, and whose price they were given. */
  pricedAs: [string, string][];
}

/** What is said of prices that are missing or another model’s, with a place to set one’s own. */
export function Prices({ unpriced, pricedAs }: Props) {
  const own = ownPrices();
  if (unpriced === 0 && pricedAs.length === 0 && own.length === 0) return null;
  return (
    <form class="row hint" onSubmit={submitted((field) => setPreference("prices", field("prices")))}>
      {unpriced > 0 && <p>{plural(unpriced, "call")} used models without a price and are in no sum of dollars.</p>}
      {pricedAs.map(([model, other]) => (
        <p key={model}>
          {model} is priced as {other}.
        </p>
      ))}
      <label>
        Your own prices{" "}
        <input
          name="prices"
          size={32}
          pattern={`${ONE}(;${ONE})*`}
          defaultValue={own[0]}
          placeholder="*:input=2,cached=0.5,output=8"
          title="Model, or * for any other; then dollars per million tokens. For all commands: contextrender price"
        />
      </label>
      <button>Use</button>
    </form>
  );
}
