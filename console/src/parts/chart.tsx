// Lines over turns, by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colour, useDark } from "../theme";

export interface Series {
  name: string;
  values: (number | null)[];
  colour: string;
  dashed?: boolean;
}

interface Props {
  label: string;
  series: Series[];
  format: (value: number) => string;
  most?: number;
}

const HEIGHT = 230;

export function Chart({ label, series, format, most }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const dark = useDark();
  const names = series.map((one) => one.name).join("\n");
  useEffect(() => {
    const grid = { stroke: colour("line"), width: 1 };
    const axis = { stroke: colour("muted"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const turns = series[0].values.map((_, index) => index + 1);
    const plot = new uPlot(
      {
        width: Math.max(240, box.current!.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: true, y: false } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), most ?? Math.max(high * 1.06, 1e-6)] } },
        axes: [
          { ...axis, size: 26, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? String(tick) : "")) },
          { ...axis, size: 58, values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {},
          ...series.map((one) => ({
            stroke: colour(one.colour),
            width: 2,
            dash: one.dashed ? [5, 4] : undefined,
            points: { show: turns.length < 3 },
            spanGaps: true,
          })),
        ],
        hooks: {
          setCursor: [
            (at) => {
              const index = at.cursor.idx;
              const out = box.current?.nextElementSibling;
              if (out) out.textContent = index == null ? "" : `Turn ${index + 1}: ${series.map((one) => `${one.name} ${one.values[index] == null ? "–" : format(one.values[index])}`).join(", ")}`;
            },
          ],
        },
      },
      [turns, ...series.map((one) => one.values)],
      box.current!,
    );
    const watch = new ResizeObserver(([entry]) => plot.setSize({ width: Math.max(240, entry.contentRect.width), height: HEIGHT }));
    watch.observe(box.current!);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [dark, names, series[0].values.length, series.map((one) => one.values.at(-1)).join()]);
  const ends = series.map((one) => `${one.name} ${one.values.at(-1) == null ? "–" : format(one.values.at(-1)!)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <h2>{label}</h2>
        <ul class="legend">
          {series.map((one) => (
            <li key={one.name}>
              <i class={`stroke ${one.colour}${one.dashed ? " dashed" : ""}`} /> {one.name}
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={`${label} over turns. At the end: ${ends}`} />
      <p class="readout" aria-hidden="true" />
    </figure>
  );
}
