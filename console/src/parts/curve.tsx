// Cost against the share of steps that had every value they used: a line per policy, a point per budget.
import { budgetOf, dollars, percent } from "../format";
import { groupBy } from "../grouping";
import { isSame, nameOf, type Setting } from "../setting";
import { isDark, toolColour } from "../theme";
import type { PolicyView } from "../types";
import { ticksOf } from "./chart";
import { Legend } from "./legend";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [720, 300, 64, 44, 30, 84];
/** The size of a point's label. */
const [LABEL, LINE] = [84, 14];

interface Props {
  options: PolicyView[];
  /** The setting in use, and the one that the page shows. */
  own: Setting;
  chosen: Setting;
  /** Return the address that shows a setting. */
  to: (setting: Setting) => string;
}

export function Curve({ options, own, chosen, to }: Props) {
  const dark = isDark();
  const lines = linesOf(options);
  const points = lines.flatMap(([, line]) => line);
  if (points.length === 0) return null;
  const leastShare = Math.min(0.9, ...points.map(({ share }) => share));
  const highestCost = Math.max(...points.map(({ cost }) => cost)) || 1;
  const x = (share: number) => LEFT + ((share - leastShare) / (1 - leastShare)) * (WIDTH - LEFT - RIGHT);
  const y = (cost: number) => TOP + (1 - cost / highestCost) * (HEIGHT - TOP - BOTTOM);
  // A label that would cover another is not drawn: the title shows it. The setting in use is labelled first.
  const labelled: typeof points = [];
  for (const point of [...points].sort((a, b) => Number(isSame(b, own)) - Number(isSame(a, own)))) {
    const covers = labelled.some((other) => Math.abs(x(other.share) - x(point.share)) < LABEL && Math.abs(y(other.cost) - y(point.cost)) < LINE);
    if (!covers) labelled.push(point);
  }
  return (
    <figure class="card chart curve">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="Cost of the session against steps with all values, by setting; the table below has the same figures">
        <text x={4} y={14}>
          cost of the session
        </text>
        {ticksOf(0, highestCost).map((cost) => (
          <g key={cost}>
            <path class="rule" d={`M${LEFT} ${y(cost)}H${WIDTH - RIGHT}`} />
            <text x={LEFT - 6} y={y(cost) + 4} text-anchor="end">
              {cost ? `$${cost}` : "$0"}
            </text>
          </g>
        ))}
        {ticksOf(leastShare, 1).map((share) => (
          <text key={share} x={x(share)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">
            {percent(share)}
          </text>
        ))}
        <text x={WIDTH - RIGHT} y={HEIGHT - 6} text-anchor="end">
          steps with every value they used
        </text>
        {lines.map(([policy, line], index) => (
          <g key={policy} class="policy" style={{ stroke: toolColour(index, dark) }}>
            <polyline points={line.map(({ share, cost }) => `${x(share)},${y(cost)}`).join(" ")} />
            {line.map((point) => {
              const here = isSame(point, own);
              const name = `${nameOf(point)}: ${dollars(point.cost)}, ${percent(point.share)} of steps with all values${here ? ". You are here" : ""}`;
              return (
                <a key={point.budget} href={to(point)} aria-label={name} aria-current={isSame(point, chosen) ? "true" : undefined}>
                  <title>{name}</title>
                  <circle class="target" cx={x(point.share)} cy={y(point.cost)} r="12" />
                  <circle class={here ? "here" : ""} cx={x(point.share)} cy={y(point.cost)} r={here ? 7 : 5} />
                  {labelled.includes(point) && (
                    <text x={x(point.share) + 8} y={y(point.cost) + 16}>
                      {here ? "you are here" : policy === "full" ? "full" : budgetOf(point.budget)}
                    </text>
                  )}
                </a>
              );
            })}
          </g>
        ))}
      </svg>
      <Legend signs={lines.map(([policy], index) => ({ name: policy, colour: toolColour(index, dark) }))} />
    </figure>
  );
}

/** Return the options with a price as a line per policy, from the least share of steps on. */
export function linesOf(options: PolicyView[]) {
  const points = options.flatMap(({ policy, budget, cost, steps, steps_with_misses }) =>
    cost === null ? [] : { policy, budget, share: steps ? 1 - steps_with_misses / steps : 1, cost },
  );
  const lines = [...groupBy(points, ({ policy }) => policy)];
  return lines.map(([policy, line]) => [policy, line.sort((a, b) => a.share - b.share || a.cost - b.cost)] as const);
}
