// Form fields, search fields and select fields.
import { useEffect, useState } from "preact/hooks";
import { Icon } from "./icon";

/** Return a handler that calls `submit` with the text of each field by its name. */
export function submitted(take: (field: (name: string) => string) => void) {
  return (event: SubmitEvent): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    take((name) => String(form.get(name) ?? "").trim());
  };
}

interface SearchProps {
  hint: string;
  label: string;
  /** The current search text. */
  value?: string;
  /** Called after a short pause in typing. */
  onSearch: (text: string) => void;
}

export function SearchBox({ hint, label, value = "", onSearch }: SearchProps) {
  const [typed, setTyped] = useState(value);
  useEffect(() => {
    if (value !== typed.trim()) setTyped(value);
  }, [value]);
  useEffect(() => {
    const timer = setTimeout(() => onSearch(typed.trim()), 200);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label class="search">
      <Icon name="search" />
      <input type="search" placeholder={hint} aria-label={label} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
    </label>
  );
}

interface ChoiceProps<T> {
  label: string;
  value: T;
  options: readonly T[];
  /** The labels of options, where they differ from the values. */
  names?: Record<string, string>;
  onChoose: (value: T) => void;
}

export function Choice<T extends string>({ label, value, options, names = {}, onChoose }: ChoiceProps<T>) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value as T)}>
        {options.map((option) => (
          <option key={option} value={option}>
            {names[option] ?? option}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A select field for one of a session's tools, or all of them. */
export const ToolChoice = ({ tools, ...props }: { tools: string[] } & Pick<ChoiceProps<string>, "value" | "onChoose">) => (
  <Choice label="Tool" options={["", ...[...tools].sort()]} names={{ "": "all" }} {...props} />
);
