// Fields to fill in, to search with, and to choose from.
import { useEffect, useState } from "preact/hooks";
import { Icon } from "./icon";

/** What a form does once it is sent, with the text of each field by its name. */
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
  /** The text that is searched for now. */
  value?: string;
  /** Called once nobody has typed for a moment. */
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
  /** What options are called, other than by themselves. */
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

/** One of a session's tools, or all of them. */
export const ToolChoice = ({ tools, ...props }: { tools: string[] } & Pick<ChoiceProps<string>, "value" | "onChoose">) => (
  <Choice label="Tool" options={["", ...[...tools].sort()]} names={{ "": "all" }} {...props} />
);
