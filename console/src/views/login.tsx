import { useState } from "preact/hooks";
import { logIn, lastSignOutReason } from "../api";

export function Login() {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(lastSignOutReason());
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setProblem("");
    try {
      await logIn(String(form.get("username")), String(form.get("password")));
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <form class="panel login" onSubmit={submit}>
      <h1>Sign in</h1>
      <label>
        Name
        <input name="username" autocomplete="username" required autofocus />
      </label>
      <label>
        Password
        <input name="password" type="password" autocomplete="current-password" required />
      </label>
      {problem && (
        <p class="bad" role="alert">
          {problem}
        </p>
      )}
      <button class="primary" disabled={busy}>
        {busy ? "Signing in…" : "Sign in"}
      </button>
      <p class="hint">
        On the machine that runs the service, run <code>contextrender console</code> instead.
      </p>
    </form>
  );
}
