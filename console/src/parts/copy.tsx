// A button that copies a text and reports that it did, or why it could not.
import { useEffect, useState } from "preact/hooks";

export function Copy({ text, title = "Copy", kind = "quiet" }: { text: string; title?: string; kind?: string }) {
  const [outcome, setOutcome] = useState("");
  useEffect(() => {
    if (!outcome) return;
    const timer = setTimeout(() => setOutcome(""), 4000);
    return () => clearTimeout(timer);
  }, [outcome]);
  const copy = () =>
    (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
      () => setOutcome("Copied"),
      () => setOutcome("The browser does not allow copying here"),
    );
  return (
    <>
      <button class={kind} onClick={copy}>
        {title}
      </button>
      <span role="status" class="hint">
        {outcome}
      </span>
    </>
  );
}
