// Prices that the user sets for models without one. The address has them, so that it shows the same figures elsewhere,
// and this browser stores them and sends them with requests.
import { plural } from "../format";
import { preference, setPreference } from "../preferences";
import { go, readPlace } from "../route";
import { submitted } from "./controls";

const NUMBER = "(input|cached|written|output)=\\d{1,6}(\\.\\d+)?";
/** The form of prices that the server accepts. It refuses the request otherwise. */
const ONE = `\\s*(?=[^;]*input=)(?=[^;]*output=)[^;,=]+:${NUMBER}(,${NUMBER})*\\s*`;
const FORM = `${ONE}(;${ONE})*`;

/** The explanation of costs by the provider's usage. */
export const COSTS =
  "By the provider’s token counts, at the price of each call’s model. The amount for the full history is an estimate. If the provider did not report all calls, both are estimates, marked with ~.";

/** The explanation of costs that are labelled "estimated". */
export const ESTIMATED =
  "Dollars for the tokens counted here, at the price of each call’s model. Tokens that the previous prompt had count as cache reads. If the provider charges for cache writes, the others count as written.";

/** Return the prices in the form that walkers accept: those of the address, or else those of this browser. */
export function ownPrices(): string[] {
  const given = readPlace(location.hash).options.prices ?? "";
  const prices = new RegExp(`^${FORM}$`).test(given) ? given : preference("prices");
  return prices ? [prices] : [];
}

/** Store the prices, and put them into the address. */
function storePrices(prices: string): void {
  const [path, query = ""] = location.hash.split("?");
  const options = new URLSearchParams(query);
  if (prices) options.set("prices", prices);
  else options.delete("prices");
  setPreference("prices", prices);
  go(path + (options.size ? `?${options}` : ""), true);
}

interface Props {
  unpriced: number;
  /** Models, with the model whose price was used for each. */
  pricedAs: [string, string][];
}

/** A note on models without a price or with another model’s price, with fields to set prices. */
export function Prices({ unpriced, pricedAs }: Props) {
  const storedPrices = ownPrices();
  if (unpriced === 0 && pricedAs.length === 0 && storedPrices.length === 0) return null;
  return (
    <form class="row hint" onSubmit={submitted((field) => storePrices(field("prices")))}>
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
          pattern={FORM}
          defaultValue={storedPrices[0]}
          placeholder="*:input=2,cached=0.5,output=8"
          title="Model, or * for any other; then dollars per million tokens. For all commands: contextrender price"
        />
      </label>
      <button>Use</button>
    </form>
  );
}
