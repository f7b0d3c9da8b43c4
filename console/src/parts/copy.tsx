// A button that copies a text and says that it did, or why it could not.
import { useEffect, useState } from "preact/hooks";

export function Copy({ text, title = "Copy" }: { text: string; title?: string }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(""), 4000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () =>
    (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
      () => setSaid("Copied"),
      () => setSaid("The browser does not allow copying here"),
    );
  return (
    <>
      <button class="quiet" onClick={copy}>
        {title}
      </button>
      <span role="status" class="hint">
        {said}
      </span>
    </>
  );
}
