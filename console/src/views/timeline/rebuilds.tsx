// The calls in which something had to leave, and how often the budget grew.
import { plural } from "../../format";
import { address } from "../../route";
import type { ViewProps } from "../props";
import type { Rebuild } from "./rebuilt";

const MOST = 100;

export function Rebuilds({ place, data, rebuilds }: ViewProps & { rebuilds: Rebuild[] }) {
  const faults = data.turns.filter((turn) => turn?.faulted).length;
  if (rebuilds.length === 0) return null;
  return (
    <p class="rebuilds">
      Something had to leave in {plural(rebuilds.length, "call")}:{" "}
      {rebuilds.slice(0, MOST).map(({ turn, dropped, back }) => (
        <>
          <a
            key={turn}
            href={address(place.session, "call", turn, place.branch, { with: String(turn - 1) })}
            title={`${plural(dropped.length, "result")} dropped, ${back.length} came back`}
          >
            {turn}
          </a>{" "}
        </>
      ))}
      {faults > 0 && ` The budget grew in ${plural(faults, "call")} for what the turn before had missed.`}
    </p>
  );
}
