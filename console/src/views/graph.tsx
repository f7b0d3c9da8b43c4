// Results, the operations that drew on them, and the values between.
// Long because the drawing, its keyboard and its tables are one view over one state.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { number, plural } from "../format";
import { type Layout, layOut, type Link, type Node } from "../parts/layout";
import { Icon } from "../parts/icon";
import { useAsk } from "../parts/load";
import { Empty, Failure, Loading } from "../parts/notes";
import { Trace } from "../parts/trace";
import { address, useOption } from "../route";
import type { SessionData } from "../session";
import { colour, toolColour, useDark } from "../theme";
import type { GraphView } from "../types";
import type { ViewProps } from "./props";

interface Camera {
  x: number;
  y: number;
  scale: number;
}

const FRAME_MS = 10;

export function Graph({ place, data }: ViewProps) {
  const graph = useAsk<GraphView>("reuse_graph", { session: place.session, branch: place.branch });
  const [tool, setTool] = useOption<string>(place, "tool", "");
  const [shown, setShown] = useOption<string>(place, "unused", "");
  const unused = shown !== "";
  const [traced, setTraced] = useOption<string>(place, "value", "");
  const [value, setValue] = [traced || null, (next: string | null) => setTraced(next ?? "")];
  const [selected, setSelected] = useOption<string>(place, "node", "");
  const [chosen, setChosen] = [selected || null, (next: string | null) => setSelected(next ?? "")];
  const view = graph.value;
  const ready = view !== null && data.results.length >= view.results.positions.length;
  const total = data.complete ? data.last : null;
  const layout = useMemo(() => (ready ? layOut(view, data, tool, unused) : null), [view, ready, tool, unused]);
  useEffect(() => {
    if (view && total !== null && total > view.last) graph.again();
  }, [total]);
  if (graph.error !== null && !view) return <Failure error={graph.error} again={graph.again} />;
  if (!layout) return <Loading what="Loading the graph…" />;
  const node = layout.nodes.find((found) => found.id === chosen) ?? null;
  return (
    <div class="graph">
      <div class="toolbar">
        <span class="summary">
          {plural(layout.nodes.filter((found) => !found.operation).length, "result")}, {plural(view!.operations.length, "operation")},{" "}
          {plural(layout.links.length, "reuse edge")}
        </span>
        <span class="spring" />
        <form
          class="search"
          onSubmit={(event) => {
            event.preventDefault();
            const typed = String(new FormData(event.currentTarget).get("value")).trim();
            setValue(typed || null);
          }}
        >
          <Icon name="search" />
          <input type="search" name="value" placeholder="Trace a value" aria-label="Trace a value" />
        </form>
        <label>
          Tool{" "}
          <select value={tool} onChange={(event) => setTool(event.currentTarget.value)}>
            <option value="">all</option>
            {[...data.tools].sort().map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label class="check">
          <input type="checkbox" checked={unused} onChange={(event) => setShown(event.currentTarget.checked ? "1" : "")} /> unused results
        </label>
      </div>
      <div class="split">
        {layout.nodes.length === 0 ? (
          <Empty title={tool ? "No result of this tool was used" : "No result was used yet"}>
            <p>An edge appears when an assistant message or a tool call repeats a value of an earlier result.</p>
          </Empty>
        ) : (
          <Picture layout={layout} chosen={chosen} value={value} onChoose={setChosen} />
        )}
        <aside>
          {value !== null && <Trace data={data} value={value} onClose={() => setValue(null)} />}
          {node && <About node={node} layout={layout} data={data} onValue={setValue} onClose={() => setChosen(null)} />}
          {!node && value === null && <Most layout={layout} onChoose={setChosen} />}
        </aside>
      </div>
    </div>
  );
}

function Most({ layout, onChoose }: { layout: Layout; onChoose: (id: string) => void }) {
  const most = layout.nodes
    .filter((node) => !node.operation && node.degree)
    .sort((a, b) => b.degree - a.degree)
    .slice(0, 20);
  return (
    <section>
      <h2>Most used results</h2>
      <ol class="plain">
        {most.map((node) => (
          <li key={node.id}>
            <button class="link" onClick={() => onChoose(node.id)}>
              {node.label}
            </button>{" "}
            <small>{plural(node.degree, "use")}</small>
          </li>
        ))}
      </ol>
    </section>
  );
}

interface AboutProps {
  node: Node;
  layout: Layout;
  data: SessionData;
  onValue: (value: string) => void;
  onClose: () => void;
}

function About({ node, layout, data, onValue, onClose }: AboutProps) {
  const links = layout.links.filter((link) => link.source === node || link.target === node);
  const result = data.results[node.result];
  return (
    <section aria-label={node.label}>
      <header>
        <h2>{node.operation ? (node.name ? `Call of ${node.name}` : "Assistant text") : node.label}</h2>
        <button class="quiet icon" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <p class="muted">
        turn {node.turn}
        {result && <> · {plural(result.tokens, "token")}</>}
        {node.operation && <> · message #{node.operation.position}</>}
      </p>
      <p class="links">
        {result && <a href={address(data.key, "result", result.position, data.branch)}>Open the result</a>}
        <a href={address(data.key, "call", Math.max(1, node.turn), data.branch)}>Call {node.turn}</a>
      </p>
      <h3>{node.operation ? "Drew on" : links.length ? "Used by" : "Not used"}</h3>
      <ul class="plain">
        {links.map((link) => {
          const other = link.source === node ? link.target : link.source;
          return (
            <li key={other.id}>
              {other.operation ? `Turn ${other.turn}, ${other.name || "text"}` : other.label}:{" "}
              {link.edge.values.map((value) => (
                <button key={value} class="chip" onClick={() => onValue(value)}>
                  {value}
                </button>
              ))}
              {link.edge.count > link.edge.values.length && <small> and {number(link.edge.count - link.edge.values.length)} more</small>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

interface PictureProps {
  layout: Layout;
  chosen: string | null;
  value: string | null;
  onChoose: (id: string | null) => void;
}

function Picture({ layout, chosen, value, onChoose }: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const camera = useRef<Camera>({ x: 0, y: 0, scale: 1 });
  const moved = useRef(false);
  const hover = useRef<Node | null>(null);
  const held = useRef(new Map<number, { x: number; y: number }>());
  const dark = useDark();
  const pending = useRef(0);

  const draw = () => {
    if (canvas.current) paint(canvas.current, camera.current, layout, dark, hover.current?.id ?? chosen, value);
  };
  const latest = useRef(draw);
  latest.current = draw;
  const redraw = () => {
    cancelAnimationFrame(pending.current);
    pending.current = requestAnimationFrame(() => latest.current());
  };
  useLayoutEffect(redraw);
  useEffect(() => {
    const view = canvas.current!;
    moved.current = false;
    let frame = 0;
    const settle = () => {
      const until = performance.now() + FRAME_MS;
      const { simulation } = layout;
      while (simulation.alpha() > simulation.alphaMin() && performance.now() < until) simulation.tick();
      if (!moved.current) fit(view, camera.current, layout.nodes);
      latest.current();
      if (simulation.alpha() > simulation.alphaMin()) frame = requestAnimationFrame(settle);
      else view.setAttribute("data-settled", "");
    };
    view.removeAttribute("data-settled");
    frame = requestAnimationFrame(settle);
    const watch = new ResizeObserver(() => {
      if (!moved.current) fit(view, camera.current, layout.nodes);
      redraw();
    });
    watch.observe(view);
    return () => {
      cancelAnimationFrame(frame);
      watch.disconnect();
    };
  }, [layout]);
  // Passive listeners could not keep the page from scrolling.
  useEffect(() => {
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    };
    const view = canvas.current!;
    view.addEventListener("wheel", wheel, { passive: false });
    return () => view.removeEventListener("wheel", wheel);
  }, []);

  const zoom = (by: number, x = canvas.current!.clientWidth / 2, y = canvas.current!.clientHeight / 2) => {
    const now = camera.current;
    const scale = Math.min(4, Math.max(0.05, now.scale * by));
    now.x = x - ((x - now.x) * scale) / now.scale;
    now.y = y - ((y - now.y) * scale) / now.scale;
    now.scale = scale;
    moved.current = true;
    redraw();
  };
  const under = (event: PointerEvent | MouseEvent): Node | null => {
    const box = canvas.current!.getBoundingClientRect();
    const { x, y, scale } = camera.current;
    const [px, py] = [(event.clientX - box.left - x) / scale, (event.clientY - box.top - y) / scale];
    const reach = 5 / scale;
    let best: Node | null = null;
    let least = Infinity;
    for (const node of layout.nodes) {
      const distance = Math.hypot(node.x - px, node.y - py) - node.radius;
      if (distance < reach && distance < least) [best, least] = [node, distance];
    }
    return best;
  };
  const down = (event: PointerEvent) => {
    canvas.current!.setPointerCapture(event.pointerId);
    held.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };
  const move = (event: PointerEvent) => {
    const before = held.current.get(event.pointerId);
    if (!before) {
      const node = under(event);
      if (node !== hover.current) {
        hover.current = node;
        canvas.current!.style.cursor = node ? "pointer" : "";
        redraw();
      }
      return;
    }
    const others = [...held.current].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [, other] = others[0];
      const box = canvas.current!.getBoundingClientRect();
      const was = Math.hypot(before.x - other.x, before.y - other.y) || 1;
      zoom(Math.hypot(event.clientX - other.x, event.clientY - other.y) / was, other.x - box.left, other.y - box.top);
    } else {
      camera.current.x += event.clientX - before.x;
      camera.current.y += event.clientY - before.y;
      moved.current = true;
      redraw();
    }
    held.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };
  const up = (event: PointerEvent) => void held.current.delete(event.pointerId);
  const keys = (event: KeyboardEvent) => {
    const pan: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "Escape") onChoose(null);
    else if (event.key === "n" || event.key === "p") {
      const order = [...layout.nodes].sort((a, b) => a.x - b.x || a.y - b.y);
      const index = order.findIndex((node) => node.id === chosen) + (event.key === "n" ? 1 : -1);
      const next = order[(index + order.length) % order.length];
      const view = canvas.current!;
      camera.current.x = view.clientWidth / 2 - next.x * camera.current.scale;
      camera.current.y = view.clientHeight / 2 - next.y * camera.current.scale;
      moved.current = true;
      onChoose(next.id);
    } else if (pan[event.key]) {
      camera.current.x += pan[event.key][0];
      camera.current.y += pan[event.key][1];
      moved.current = true;
      redraw();
    } else return;
    event.preventDefault();
  };
  return (
    <div class="picture">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`Graph of ${plural(layout.nodes.length, "node")}. N and P choose the next and previous node, arrow keys move the view, plus and minus zoom.`}
        onPointerDown={down}
        onPointerMove={move}
        onPointerUp={up}
        onPointerCancel={up}
        onPointerLeave={() => {
          hover.current = null;
          redraw();
        }}
        onClick={(event) => onChoose(under(event)?.id ?? null)}
        onKeyDown={keys}
      />
      <span class="group floating" role="group" aria-label="Zoom">
        <button class="icon" aria-label="Zoom out" onClick={() => zoom(0.7)}>
          <Icon name="minus" />
        </button>
        <button
          class="icon"
          aria-label="Fit"
          onClick={() => {
            moved.current = false;
            fit(canvas.current!, camera.current, layout.nodes, true);
            redraw();
          }}
        >
          <Icon name="fit" />
        </button>
        <button class="icon" aria-label="Zoom in" onClick={() => zoom(1.4)}>
          <Icon name="plus" />
        </button>
      </span>
      <ul class="legend floating low" aria-label="Legend">
        <li>
          <i class="round" /> result, by size
        </li>
        <li>
          <i class="square" /> call or text that used it
        </li>
        <li>time runs right</li>
      </ul>
    </div>
  );
}

const READABLE = 0.45;

/** All of it where that is readable, else the newest part. */
function fit(canvas: HTMLCanvasElement, camera: Camera, nodes: Node[], all = false): void {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const node of nodes) {
    left = Math.min(left, node.x);
    right = Math.max(right, node.x);
    top = Math.min(top, node.y);
    bottom = Math.max(bottom, node.y);
  }
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const whole = Math.min(1.4, (width - 120) / Math.max(1, right - left), (height - 90) / Math.max(1, bottom - top));
  const tall = Math.min(1, (height - 90) / Math.max(1, bottom - top));
  camera.scale = all ? Math.max(0.05, whole) : whole >= READABLE ? whole : Math.max(READABLE, tall);
  const fits = (right - left) * camera.scale <= width - 60;
  camera.x = fits ? width / 2 - ((left + right) / 2) * camera.scale : width - 110 - right * camera.scale;
  camera.y = height / 2 - ((top + bottom) / 2) * camera.scale;
}

function paint(
  canvas: HTMLCanvasElement, camera: Camera, layout: Layout,
  dark: boolean, focus: string | null, value: string | null,
): void {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const ctx = canvas.getContext("2d")!;
  const { x, y, scale } = camera;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = colour("panel");
  ctx.fillRect(0, 0, width, height);
  const [text, muted, panel] = [colour("text"), colour("muted"), colour("panel")];
  const near = new Set<Node>();
  const bright = new Set<Link>();
  for (const link of layout.links) {
    const on = value !== null ? link.edge.values.includes(value) : focus !== null && (link.source.id === focus || link.target.id === focus);
    if (on) {
      bright.add(link);
      near.add(link.source).add(link.target);
    }
  }
  if (focus) for (const node of layout.nodes) if (node.id === focus) near.add(node);
  const some = near.size > 0;
  const seen = (left: number, right: number) => right * scale + x > -60 && left * scale + x < width + 60;
  ctx.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * x, ratio * y);
  for (const pass of [false, true]) {
    for (const link of layout.links) {
      const { source, target, edge } = link;
      if (bright.has(link) !== pass || !seen(Math.min(source.x, target.x), Math.max(source.x, target.x))) continue;
      ctx.strokeStyle = toolColour(source.tool, dark, pass ? 0.95 : some ? 0.1 : 0.42);
      ctx.lineWidth = Math.min(7, 0.7 + 1.1 * Math.sqrt(edge.count - 0.5)) * (pass ? 1.5 : 1);
      const bend = Math.min(160, Math.abs(target.x - source.x) * 0.45);
      ctx.beginPath();
      ctx.moveTo(source.x, source.y);
      ctx.bezierCurveTo(source.x + bend, source.y, target.x - bend, target.y, target.x, target.y);
      ctx.stroke();
    }
  }
  for (const node of layout.nodes) {
    if (!seen(node.x, node.x)) continue;
    const faint = some && !near.has(node);
    ctx.globalAlpha = faint ? 0.25 : 1;
    ctx.fillStyle = node.tool >= 0 ? toolColour(node.tool, dark) : muted;
    ctx.beginPath();
    if (node.operation) ctx.rect(node.x - 4, node.y - 4, 8, 8);
    else ctx.arc(node.x, node.y, node.radius, 0, 7);
    if (node.operation) {
      ctx.lineWidth = 2;
      ctx.strokeStyle = ctx.fillStyle;
      ctx.fillStyle = panel;
      ctx.fill();
      ctx.stroke();
    } else ctx.fill();
    if (node.id === focus) {
      ctx.lineWidth = 2.5;
      ctx.strokeStyle = text;
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
  }
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  labels(ctx, camera, layout, near, bright, { width, height, text, muted, panel });
}

interface Paper {
  width: number;
  height: number;
  text: string;
  muted: string;
  panel: string;
}

/** As many labels as have room, the most used first; of what is chosen, all, with values on the edges. */
function labels(ctx: CanvasRenderingContext2D, camera: Camera, layout: Layout, near: Set<Node>, bright: Set<Link>, paper: Paper): void {
  const { x, y, scale } = camera;
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  const taken: [number, number, number, number][] = [];
  const put = (words: string, cx: number, cy: number, fill: string, force = false) => {
    const half = ctx.measureText(words).width / 2 + 3;
    const box: [number, number, number, number] = [cx - half, cy - 8, cx + half, cy + 8];
    if (box[2] < 0 || box[0] > paper.width || box[3] < 0 || box[1] > paper.height) return;
    if (!force && taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) return;
    taken.push(box);
    ctx.globalAlpha = 0.82;
    ctx.fillStyle = paper.panel;
    ctx.fillRect(box[0], box[1] + 1, box[2] - box[0], 14);
    ctx.globalAlpha = 1;
    ctx.fillStyle = fill;
    ctx.fillText(words, cx, cy);
  };
  const some = near.size > 0;
  const order = [...layout.nodes].sort((a, b) => Number(near.has(b)) - Number(near.has(a)) || b.degree - a.degree);
  const turn = (node: Node) => (near.has(node) ? ` · turn ${node.turn}` : "");
  for (const node of order) {
    if (some && !near.has(node)) break;
    if (!near.has(node) && scale < 0.3 && node.degree < 4) continue;
    put(node.label.slice(0, 40) + turn(node), node.x * scale + x, node.y * scale + y + node.radius * scale + 10, near.has(node) ? paper.text : paper.muted);
  }
  if (!some && scale < 1.15) return;
  for (const link of some ? bright : layout.links) {
    const [value] = link.edge.values;
    const words = value.slice(0, 28) + (link.edge.count > 1 ? ` +${link.edge.count - 1}` : "");
    put(words, ((link.source.x + link.target.x) / 2) * scale + x, ((link.source.y + link.target.y) / 2) * scale + y, paper.text);
  }
}
