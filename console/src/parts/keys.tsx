// The keys of every view, in a list that ? opens.
import { useRef } from "preact/hooks";
import { useEvent } from "../preferences";

const KEYS: [string, [string, string][]][] = [
  ["Everywhere", [["?", "This list"], ["Tab", "To the next thing that can be used"]]],
  [
    "Timeline",
    [
      ["← → ↑ ↓", "From cell to cell; with Ctrl to the end"],
      ["Page up, Page down", "Twenty results on"],
      ["Enter", "Open the call"],
      ["R", "Open the result"],
      ["+ −", "Zoom"],
      ["F", "Fit all of it"],
      ["Esc", "Clear the selection"],
    ],
  ],
  ["One call", [["← →", "The call before and the one after"]]],
  [
    "Reuse graph",
    [
      ["← → ↑ ↓", "Move the picture"],
      ["N P", "To the next node and the one before"],
      ["Enter", "Open the node or the group"],
      ["+ −", "Zoom"],
      ["F", "Fit the whole graph"],
      ["Esc", "Clear the selection"],
    ],
  ],
];

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
        {KEYS.map(([where, keys]) => (
          <section key={where}>
            <h3>{where}</h3>
            {keys.map(([key, does]) => (
              <p key={key}>
                <kbd>{key}</kbd> {does}
              </p>
            ))}
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
