// Lines over the turns of a session.
import { useState } from "preact/hooks";
import { number } from "../format";
import { Legend } from "./legend";

export interface Series {
  name: string;
  colour: string;
  /** One value per turn. */
  values: (number | null)[];
}

interface Props {
  label: string;
  series: Series[];
  format: (value: number) => string;
  /** The end of the axis. The default is the largest value. */
  most?: number;
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [440, 210, 60, 16, 10, 24];
const TICKS = 5;

export function Chart({ label, series, format, most }: Props) {
  const [turn, setTurn] = useState<number | null>(null);
  const last = series[0].values.length;
  const all = series.flatMap(({ values }) => values.filter((value) => value !== null));
  const low = all.reduce((a, b) => Math.min(a, b), 0);
  const high = most ?? all.reduce((a, b) => Math.max(a, b), 1e-6);
  const x = (at: number) => LEFT + ((at - 1) / (last - 1 || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const valuesAt = (at: number) =>
    series.map(({ name, values }) => `${name} ${values[at - 1] == null ? "–" : format(values[at - 1]!)}`).join(", ");
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    setTurn(Math.round(1 + Math.min(1, Math.max(0, share)) * (last - 1)));
  };
  return (
    <figure class="card chart">
      <figcaption>
        <h2>{label}</h2>
        <Legend signs={series} />
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`${label} over turns. At the end: ${valuesAt(last)}`}
        onPointerMove={point}
        onPointerLeave={() => setTurn(null)}
      >
        {ticksOf(low, high).map((tick) => (
          <g key={tick}>
            <path class="rule" d={`M${LEFT} ${y(tick)}H${WIDTH - RIGHT}`} />
            <text x={LEFT - 6} y={y(tick) + 4} text-anchor="end">
              {format(tick)}
            </text>
          </g>
        ))}
        {ticksOf(1, last).filter(Number.isInteger).map((tick) => (
          <text key={tick} x={x(tick)} y={HEIGHT - 6} text-anchor="middle">
            {number(tick)}
          </text>
        ))}
        {series.map(({ name, colour, values }) => (
          <polyline
            key={name}
            style={{ stroke: colour }}
            points={values.map((value, index) => value !== null && `${x(index + 1)},${y(value)}`).filter(Boolean).join(" ")}
          />
        ))}
      </svg>
      <p class="readout" aria-hidden="true">
        {turn !== null && `Turn ${number(turn)}: ${valuesAt(turn)}`}
      </p>
    </figure>
  );
}

/** Return a few round values between two values. */
export function ticksOf(low: number, high: number): number[] {
  const raw = (high - low || 1) / TICKS;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((round) => round * power >= raw * 0.999)! * power;
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  // Rounded, because 3 times 0.1 is not exactly 0.3.
  return Array.from({ length: count }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}
