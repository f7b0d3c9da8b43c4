// Prices that the user sets for models without one. This browser stores them and sends them with requests.
import { plural } from "../format";
import { preference, setPreference } from "../preferences";
import { submitted } from "./controls";

const NUMBER = "(input|cached|written|output)=\\d{1,6}(\\.\\d+)?";
/** The form of prices that the server accepts. It refuses the request otherwise. */
const ONE = `\\s*(?=[^;]*input=)(?=[^;]*output=)[^;,=]+:${NUMBER}(,${NUMBER})*\\s*`;

/** The explanation of costs that are labelled "counted". */
export const COUNTED =
  "Dollars for the tokens counted here, at the price of each call’s model. Tokens that the previous prompt had count as cache reads. If the provider charges for cache writes, the others count as written.";

/** Return the prices in the form that walkers accept. */
export function ownPrices(): string[] {
  const ownPrice = preference("prices");
  return ownPrice ? [ownPrice] : [];
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
          defaultValue={storedPrices[0]}
          placeholder="*:input=2,cached=0.5,output=8"
          title="Model, or * for any other; then dollars per million tokens. For all commands: contextrender price"
        />
      </label>
      <button>Use</button>
    </form>
  );
}
