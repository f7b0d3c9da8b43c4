// The timeline: every turn and every result in one grid.
// Long because pointer, keyboard and details all follow the one grid.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { plural } from "../format";
import { ToolChoice } from "../parts/controls";
import { readLook, useSize } from "../parts/canvas";
import { type Cell, Grid } from "../parts/grid";
import { Legend, type Sign, Zoom } from "../parts/legend";
import { go, useOption } from "../route";
import { LIVE, type ViewProps } from "../session";
import { isDark } from "../theme";
import { Life, describeCell } from "./timeline/life";
import { Rebuilds, rebuildsOf } from "./timeline/rebuilds";

const SIGNS: Sign[] = [
  { name: "shown", colour: "var(--complete)" },
  { name: "excerpt", colour: "var(--replaced)" },
  { name: "omitted", colour: "var(--omitted)" },
  { name: "used", colour: "radial-gradient(circle, var(--used) 34%, var(--complete) 40%)" },
  { name: "used, omitted, value visible elsewhere", colour: "radial-gradient(circle, var(--muted) 18%, var(--omitted) 24%)" },
  { name: "miss: the value was nowhere in the prompt", colour: "radial-gradient(circle, var(--omitted) 18%, var(--missed) 24% 46%, var(--omitted) 52%)" },
];
const ZOOMS = [1, 2, 3, 4, 6, 8, 11, 15, 20];

export function Timeline({ place, data }: ViewProps) {
  const [zoom, setZoom] = useState<number | null>(null);
  const [tool, setTool] = useOption<string>(place, "tool", "");
  const [follow, setFollow] = useState(false);
  const [cursor, setCursor] = useState<Cell | null>(null);
  const [hover, setHover] = useState<Cell | null>(null);
  const dark = isDark();
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(box);
  const rows = useMemo(() => {
    const results = data.results.filter((result) => !tool || data.tools[result.tool] === tool);
    return results.map((result) => result.number);
  }, [data.version, tool]);
  const rebuilds = useMemo(() => (data.policy === LIVE ? rebuildsOf(data.turns) : []), [data.version]);
  const grid = useMemo(() => (canvas.current ? new Grid(canvas.current, data) : null), [canvas.current, data]);
  const look = useMemo(readLook, [dark]);
  const turns = data.last;

  const narrow = size.width < 640;
  const header = grid?.header ?? 22;
  const gutter = narrow ? 110 : 190;
  const fitCell = Math.min(40, (size.width - gutter) / Math.max(1, turns)) || 1;
  const cell = zoom === null ? fitCell : ZOOMS[zoom];
  const fitRow = Math.min(20, (size.height - header) / Math.max(1, rows.length)) || 1;
  const height = zoom === null ? fitRow : Math.max(Math.min(20, cell + 2), 1);
  if (grid) Object.assign(grid, { gutter, cell, height, rows, rebuilds: rebuilds.map(({ turn }) => turn) });

  const draw = () => {
    if (!grid || !box.current) return;
    grid.draw(look, box.current.scrollLeft, box.current.scrollTop, hover ?? cursor);
  };
  const latest = useRef(draw);
  latest.current = draw;
  const pending = useRef(0);
  const redraw = () => {
    cancelAnimationFrame(pending.current);
    pending.current = requestAnimationFrame(() => latest.current());
  };
  useLayoutEffect(redraw);

  const pick = (event: PointerEvent | MouseEvent): Cell | null => {
    const around = canvas.current!.getBoundingClientRect();
    return grid?.at(event.clientX - around.left, event.clientY - around.top, box.current!.scrollLeft, box.current!.scrollTop) ?? null;
  };
  const reveal = (to: Cell) => {
    const view = box.current!;
    const x = to.turn * cell;
    const y = to.row * height;
    if (x < view.scrollLeft) view.scrollLeft = x;
    if (x + cell > view.scrollLeft + size.width - gutter) view.scrollLeft = x + cell - size.width + gutter;
    if (y < view.scrollTop) view.scrollTop = y;
    if (y + height > view.scrollTop + size.height - header) view.scrollTop = y + height - size.height + header;
  };
  const keys = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && !event.key.startsWith("Arrow")) return;
    const now = cursor ?? { turn: turns - 1, row: 0 };
    const far = event.ctrlKey || event.metaKey ? 1e6 : 1;
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-far, 0], ArrowRight: [far, 0], ArrowUp: [0, -far], ArrowDown: [0, far],
      PageUp: [0, -20], PageDown: [0, 20], Home: [-1e6, 0], End: [1e6, 0],
    };
    const move = moves[event.key];
    if (move) {
      const to = {
        turn: Math.min(turns - 1, Math.max(0, now.turn + move[0])),
        row: Math.min(rows.length - 1, Math.max(0, now.row + move[1])),
      };
      setCursor(to);
      setHover(null);
      reveal(to);
    } else if (event.key === "Enter" && cursor) go(data.to("call", cursor.turn + 1));
    else if (event.key === "r" && cursor) go(data.to("result", data.results[rows[cursor.row]].position));
    else if (event.key === "+" || event.key === "=") change(1);
    else if (event.key === "-") change(-1);
    else if (event.key === "f") setZoom(null);
    else if (event.key === "Escape") setCursor(null);
    else return;
    event.preventDefault();
  };
  const change = (by: number) => {
    const now = zoom ?? ZOOMS.findIndex((zoomSize) => zoomSize >= cell);
    const next = Math.min(ZOOMS.length - 1, Math.max(0, (now < 0 ? ZOOMS.length - 1 : now) + by));
    const view = box.current!;
    const middle = (view.scrollLeft + (size.width - gutter) / 2) / cell;
    const centre = (view.scrollTop + (size.height - header) / 2) / height;
    const tall = Math.max(Math.min(20, ZOOMS[next] + 2), 1);
    setZoom(next);
    requestAnimationFrame(() => {
      view.scrollLeft = middle * ZOOMS[next] - (size.width - gutter) / 2;
      view.scrollTop = centre * tall - (size.height - header) / 2;
    });
  };
  useEffect(() => {
    if (follow) box.current!.scrollTo(box.current!.scrollWidth, box.current!.scrollHeight);
  }, [follow, turns, zoom, rows.length]);
  const focus = hover ?? cursor;
  const extent = grid?.extent ?? { width: 0, height: 0 };

  return (
    <div class="timeline">
      <div
        class="panel grid"
        ref={box}
        tabIndex={0}
        role="application"
        aria-label={`Timeline of ${plural(turns, "turn")} and ${plural(rows.length, "result")}. Arrow keys move, Enter opens the call and R the result.`}
        onScroll={redraw}
        onKeyDown={keys}
        onPointerMove={(event) => setHover(pick(event))}
        onPointerLeave={() => setHover(null)}
        onClick={(event) => setCursor(pick(event))}
        onDblClick={(event) => {
          const to = pick(event);
          if (to && to.turn >= 0) go(data.to("call", to.turn + 1));
        }}
      >
        <canvas ref={canvas} aria-hidden="true" style={{ width: `${size.width}px`, height: `${size.height}px` }} />
        <div class="extent" style={{ width: `${extent.width}px`, height: `${Math.max(0, extent.height - size.height)}px` }} />
      </div>
      <Life data={data} cell={focus} rows={rows} rebuild={rebuilds.find(({ turn }) => turn === (focus?.turn ?? -2) + 1)} />
      <p class="hidden" role="status">
        {cursor && !hover ? describeCell(data, cursor, rows) : ""}
      </p>
      <div class="toolbar">
        <Legend signs={SIGNS} />
        <span class="spring" />
        <ToolChoice tools={data.tools} value={tool} onChoose={setTool} />
        {zoom !== null && (
          <label class="check" title="Stay with the newest turn while the agent runs">
            <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} /> follow
          </label>
        )}
        <Zoom fitted={zoom === null} onZoom={change} onFit={() => setZoom(null)} />
      </div>
      <Rebuilds data={data} rebuilds={rebuilds} />
    </div>
  );
}
