// Messages of a view that has nothing to show, and heads of panels.
import type { ComponentChildren } from "preact";
import { number } from "../format";
import { Icon } from "./icon";

export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  return (
    <div class="note bad" role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {again && <button onClick={again}>Try again</button>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="note empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <p class="note loading" role="status">
      <span class="spinner" aria-hidden="true" /> {what}
    </p>
  );
}

/** The number of rows that one press loads. */
export const MORE = 500;

/** The button that loads more rows. */
export const More = ({ there: loaded, all, kind = "more", onMore }: { there: number; all: number; kind?: string; onMore: () => void }) =>
  loaded < all ? (
    <button class="wide" onClick={onMore}>
      Show {number(Math.min(MORE, all - loaded))} {kind} of {number(all - loaded)}
    </button>
  ) : null;

/** The head of a panel that can be closed. */
export function Closable({ title, onClose }: { title: ComponentChildren; onClose: () => void }) {
  return (
    <header>
      <h2>{title}</h2>
      <button class="quiet icon" aria-label="Close" onClick={onClose}>
        <Icon name="close" />
      </button>
    </header>
  );
}

/** The definition of each count, for its hint. */
export const TURNS = "How often the model answered";
export const RESULTS = "Tool results recorded, each with the call it answers";
export const USES = "A use is a turn whose answer used an earlier result; each result counts once per turn";
export const STEPS =
  "Share of the steps (answers that used an earlier result) that had every value they used visible in the prompt";
export const RECALL = "Later-Used Result Recall, the measure of the method’s paper: the share of later-used results that were complete in the prompt";

/** A figure with its name, in a row of several. Its hint is read with the mouse or with the keyboard. */
export function Figure({ name, value, hint }: { name: string; value: ComponentChildren; hint?: string }) {
  return (
    <div class="figure" title={hint} tabIndex={hint ? 0 : undefined}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
