// The keys of every view, in a list that ? opens.
import { useRef } from "preact/hooks";
import { useEvent } from "../preferences";

const ZOOM = "+ and −: zoom. F: fit all of it. Esc: clear the selection.";
const KEYS = {
  Everywhere: "?: this list. Tab: to the next thing that can be used.",
  Timeline: `← → ↑ ↓: from cell to cell; with Ctrl to the end. Page up, Page down: twenty results on. Enter: the call. R: the result. ${ZOOM}`,
  "One call": "← →: the call before and the one after.",
  "Reuse graph": `← → ↑ ↓: move the picture. N, P: to the next node and the one before. Enter: open the node or the group. ${ZOOM}`,
};

export function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = () => dialog.current?.showModal();
  useEvent("keydown", (event) => {
    if (event.key === "?" && !(event.target instanceof Element && event.target.closest("input, select, textarea"))) open();
  });
  return (
    <>
      <button class="quiet icon keys" tabIndex={-1} aria-label="Keys" title="Keys (?)" onClick={open}>
        ?
      </button>
      <dialog ref={dialog} aria-label="Keys">
        <h2>Keys</h2>
        {Object.entries(KEYS).map(([where, keys]) => (
          <section key={where}>
            <h3>{where}</h3>
            <p>{keys}</p>
          </section>
        ))}
        <form method="dialog">
          <button class="primary" autofocus>
            Close
          </button>
        </form>
      </dialog>
    </>
  );
}
