// The picture of a session: a column for each turn, a row for each result, drawn on a canvas.
// Long because drawing, pointing and moving share the measures of one canvas.
import { numbersIn, type SessionData } from "../session";
import { short } from "../format";
import { fittedName, clearedCanvas, type Look, TURN_STEPS } from "./canvas";

export interface Cell {
  turn: number;
  row: number;
}

/** The visible range of turns and rows. The last ones are excluded. */
interface Part {
  first: number;
  last: number;
  firstRow: number;
  lastRow: number;
}

const AXIS = 22;
/** The height of the band of budgets, in pixels. */
const BAND = 30;

/** The drawing of the visible part of the grid. Turns and rows count from 0. */
export class Grid {
  gutter = 190;
  cell = 1;
  height = 1;
  rows: number[] = [];
  /** The turns, from 1, of calls that dropped results. The band of budgets is drawn only if there are any. */
  rebuilds: number[] = [];
  private map: HTMLCanvasElement = document.createElement("canvas");
  private mapKey = "";

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly data: SessionData,
  ) {}

  get header(): number {
    return AXIS + (this.rebuilds.length ? BAND : 0);
  }

  /** The size of the whole grid, in CSS pixels. */
  get extent(): { width: number; height: number } {
    return { width: this.gutter + this.data.last * this.cell, height: this.header + this.rows.length * this.height };
  }

  at(x: number, y: number, left: number, top: number): Cell | null {
    if (y < this.header) return null;
    const turn = Math.floor((x - this.gutter + left) / this.cell);
    const row = Math.floor((y - this.header + top) / this.height);
    const inside = row >= 0 && row < this.rows.length && turn < this.data.last;
    return inside ? { turn: x < this.gutter ? -1 : Math.max(0, turn), row } : null;
  }

  draw(look: Look, left: number, top: number, cursor: Cell | null): void {
    const { canvas, cell, height, gutter } = this;
    const [width, tall] = [canvas.clientWidth, canvas.clientHeight];
    const ctx = clearedCanvas(canvas, look.panel);
    this.paintMap(look);
    const end = Math.ceil((left + width - gutter) / cell);
    const part: Part = {
      first: Math.floor(left / cell),
      last: Math.min(this.data.turns.length, end),
      firstRow: Math.floor(top / height),
      lastRow: Math.min(this.rows.length, Math.ceil((top + tall - this.header) / height)),
    };
    const { first, last, firstRow, lastRow } = part;
    ctx.save();
    ctx.beginPath();
    ctx.rect(gutter, this.header, width - gutter, tall - this.header);
    ctx.clip();
    ctx.translate(gutter - left, this.header - top);
    if (cursor) this.band(ctx, look, cursor, part);
    if (last > first && lastRow > firstRow) {
      ctx.imageSmoothingEnabled = cell < 1 || height < 1;
      ctx.drawImage(
        this.map,
        first, firstRow, last - first, lastRow - firstRow,
        first * cell, firstRow * height, (last - first) * cell, (lastRow - firstRow) * height,
      );
      this.lines(ctx, look, part);
      this.marks(ctx, look, part);
    }
    if (cursor && cursor.turn >= 0) {
      ctx.strokeStyle = look.text;
      ctx.lineWidth = 2;
      ctx.strokeRect(cursor.turn * cell - 1, cursor.row * height - 1, Math.max(cell, 3) + 2, Math.max(height, 3) + 2);
    }
    ctx.restore();
    this.labels(ctx, look, left, top, { ...part, last: Math.min(this.data.last, end) }, cursor);
  }

  /** Paint an image with one pixel per cell, which is scaled when drawn. Only new cells are painted. */
  private paintMap(look: Look): void {
    const { data, rows } = this;
    const key = `${data.version} ${rows.length} ${rows[0]} ${rows[rows.length - 1]} ${look.complete} ${look.panel}`;
    if (key === this.mapKey) return;
    this.mapKey = key;
    const width = Math.max(1, data.turns.length);
    const height = Math.max(1, rows.length);
    this.map.width = width;
    this.map.height = height;
    const image = new ImageData(width, height);
    const cells = new Uint32Array(image.data.buffer);
    const [omitted, complete, replaced] = [packed(look.omitted), packed(look.complete), packed(look.replaced)];
    const rowOf = new Int32Array(data.results.length).fill(-1);
    rows.forEach((result, row) => (rowOf[result] = row));
    data.turns.forEach((turn, column) => {
      const paint = (result: number, colour: number) => {
        if (rowOf[result] >= 0) cells[rowOf[result] * width + column] = colour;
      };
      for (let result = 0; result < turn.results; result++) paint(result, omitted);
      for (const result of numbersIn(turn.complete)) paint(result, complete);
      for (const result of numbersIn(turn.substitutes)) paint(result, replaced);
    });
    this.map.getContext("2d")!.putImageData(image, 0, 0);
  }

  private band(ctx: CanvasRenderingContext2D, look: Look, cursor: Cell, { first, last, firstRow, lastRow }: Part): void {
    ctx.fillStyle = look.band;
    ctx.fillRect(first * this.cell, cursor.row * this.height, (last - first) * this.cell, Math.max(1, this.height));
    if (cursor.turn >= 0) {
      ctx.fillRect(cursor.turn * this.cell, firstRow * this.height, Math.max(1, this.cell), (lastRow - firstRow) * this.height);
    }
  }

  private lines(ctx: CanvasRenderingContext2D, look: Look, { first, last, firstRow, lastRow }: Part): void {
    ctx.fillStyle = look.panel;
    if (this.cell >= 5) {
      for (let turn = first; turn <= last; turn++) ctx.fillRect(turn * this.cell - 0.5, firstRow * this.height, 1, (lastRow - firstRow) * this.height);
    }
    if (this.height >= 5) {
      const gap = this.height >= 12 ? 4 : 1;
      for (let row = firstRow; row <= lastRow; row++) ctx.fillRect(first * this.cell, row * this.height - gap / 2, (last - first) * this.cell, gap);
    }
  }

  /** Draw uses: a dot for a use, a ring for a miss, a faint dot for a use of an omitted result whose value was elsewhere. */
  private marks(ctx: CanvasRenderingContext2D, look: Look, { first, last, firstRow, lastRow }: Part): void {
    const { cell, height, data } = this;
    const size = Math.min(cell, height);
    const radius = Math.min(4.5, Math.max(1, size * 0.3));
    const dot = (column: number, row: number, colour: string, scale: number) => {
      ctx.fillStyle = colour;
      ctx.beginPath();
      ctx.arc((column + 0.5) * cell, (row + 0.5) * height, radius * scale, 0, 7);
      ctx.fill();
    };
    for (let row = firstRow; row < lastRow; row++) {
      const result = this.rows[row];
      for (const turn of data.markedAt(result)) {
        const column = turn - 1;
        if (column < first || column >= last) continue;
        const mark = data.markAt(column, result);
        if (size < 5) {
          if (mark === "elsewhere") continue;
          ctx.fillStyle = mark === "miss" ? look.missed : look.used;
          const side = Math.max(size, 2);
          ctx.fillRect((column + 0.5) * cell - side / 2, (row + 0.5) * height - side / 2, side, side);
        } else if (mark === "elsewhere") dot(column, row, look.muted, 0.55);
        else {
          dot(column, row, mark === "miss" ? look.missed : look.used, 1);
          if (mark === "miss") dot(column, row, look.panel, 0.5);
        }
      }
    }
  }

  private labels(ctx: CanvasRenderingContext2D, look: Look, left: number, top: number, part: Part, cursor: Cell | null): void {
    const { cell, height, gutter, data } = this;
    const { first, last, firstRow, lastRow } = part;
    const [width, tall] = [this.canvas.clientWidth, this.canvas.clientHeight];
    ctx.fillStyle = look.panel;
    ctx.fillRect(0, 0, width, this.header);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    ctx.textAlign = "center";
    const step = TURN_STEPS.find((n) => n * cell >= 34) ?? 1000;
    for (let turn = first; turn < last; turn++) {
      const is = cursor?.turn === turn;
      if ((turn + 1) % step && turn !== 0 && !is) continue;
      if (!is && cursor && cursor.turn >= 0 && Math.abs(cursor.turn - turn) * cell < 26) continue;
      if (!is && turn === 0 && step > 1 && (step - 1) * cell < 30) continue;
      const x = gutter + (turn + 0.5) * cell - left;
      if (x < gutter + 2) continue;
      ctx.fillStyle = is ? look.text : look.muted;
      ctx.fillText(String(turn + 1), x, AXIS / 2);
    }
    if (this.rebuilds.length) this.budgets(ctx, look, left, width, first, last);
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, this.header, gutter, tall - this.header);
    ctx.clip();
    ctx.textAlign = "left";
    const name = (row: number, y: number) => {
      const result = data.results[this.rows[row]];
      if (!result || result.position < 0) return;
      ctx.fillStyle = cursor?.row === row ? look.text : look.muted;
      const number = `#${result.position}`;
      const after = Math.max(50, 14 + ctx.measureText(number).width);
      ctx.fillText(number, 6, y);
      ctx.fillText(fittedName(ctx, data.tools[result.tool] || "tool", gutter - after - 8), after, y);
    };
    const middle = (row: number) => this.header + (row + 0.5) * height - top;
    const skip = Math.max(1, Math.ceil(13 / height));
    let free = this.header + 7;
    for (let row = firstRow - (firstRow % skip); row < lastRow; row += skip) {
      const y = Math.max(this.header + 7, middle(row));
      if (y < free || y > tall - 5) continue;
      free = y + 12;
      name(row, y);
    }
    if (cursor && cursor.row % skip) {
      ctx.fillStyle = look.panel;
      ctx.fillRect(0, middle(cursor.row) - 9, gutter, 18);
      name(cursor.row, middle(cursor.row));
    }
    ctx.restore();
    ctx.fillStyle = look.line;
    ctx.fillRect(gutter - 1, 0, 1, tall);
    ctx.fillRect(0, this.header - 1, width, 1);
    ctx.fillStyle = look.muted;
    ctx.textAlign = "left";
    ctx.fillText("Result", 6, AXIS / 2);
    ctx.textAlign = "right";
    ctx.fillText("turn →", gutter - 8, AXIS / 2);
  }

  /** Draw the budget of each call, a dot where it grew, and a mark at each rebuild. */
  private budgets(ctx: CanvasRenderingContext2D, look: Look, left: number, width: number, first: number, last: number): void {
    const { turns } = this.data;
    const [top, bottom] = [AXIS + 4, AXIS + BAND - 5];
    let largest = 1;
    for (const turn of turns) if (turn) largest = Math.max(largest, turn.budget);
    const x = (turn: number) => this.gutter + (turn + 0.5) * this.cell - left;
    const y = (budget: number) => bottom - (budget / largest) * (bottom - top);
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.gutter, AXIS, width - this.gutter, BAND);
    ctx.clip();
    ctx.strokeStyle = look.muted;
    ctx.lineWidth = 1;
    for (const turn of this.rebuilds) ctx.strokeRect(Math.round(x(turn - 1)) - 0.5, AXIS, 0, BAND);
    ctx.strokeStyle = look.complete;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    let isDrawing = false;
    for (let turn = first; turn < last; turn++) {
      const call = turns[turn];
      if (call && isDrawing) ctx.lineTo(x(turn), y(call.budget));
      else if (call) ctx.moveTo(x(turn), y(call.budget));
      isDrawing = Boolean(call);
    }
    ctx.stroke();
    ctx.fillStyle = look.complete;
    for (let turn = first; turn < last; turn++) {
      if (!turns[turn]?.faulted || turns[turn].budget <= (turns[turn - 1]?.budget ?? 0)) continue;
      ctx.beginPath();
      ctx.arc(x(turn), y(turns[turn].budget), 2.5, 0, 7);
      ctx.fill();
    }
    ctx.restore();
    ctx.fillStyle = look.muted;
    ctx.textAlign = "left";
    ctx.fillText(`budget, up to ${short(largest)}`, 6, AXIS + BAND / 2);
  }
}

/** Return a CSS colour as a pixel of ImageData on a little-endian machine. */
function packed(css: string): number {
  const ctx = document.createElement("canvas").getContext("2d")!;
  ctx.fillStyle = css;
  ctx.fillRect(0, 0, 1, 1);
  return new Uint32Array(ctx.getImageData(0, 0, 1, 1).data.buffer)[0];
}
