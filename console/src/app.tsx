// The frame around every view: the user, the place, and the colour theme.
import { useEffect } from "preact/hooks";
import { isSignedIn, signOut, linkedSession } from "./api";
import { setPreference, usePreferences } from "./preferences";
import { Icon } from "./parts/icon";
import { Keys } from "./parts/keys";
import { Empty } from "./parts/notes";
import { address, type Place, searchAddress, usePlace } from "./route";
import { isDark } from "./theme";
import { Login } from "./views/login";
import { Overall } from "./views/overall";
import { Search } from "./views/search";
import { Session } from "./views/session";
import { Sessions } from "./views/sessions";
import { Store } from "./views/store";

export function App() {
  usePreferences();
  const [signedIn, only] = [isSignedIn(), linkedSession()];
  const place = usePlace();
  useEffect(() => {
    document.title = (signedIn ? titleOf(place) : "Sign in") + " · ContextRender";
  });
  const theme = isDark() ? "light" : "dark";
  const leave = only === null ? "Sign out" : "Close";
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="#/" aria-label="ContextRender">
          <img src="/console/icon.svg" alt="" width="24" height="24" />
          <span>ContextRender</span>
        </a>
        {only !== null && <span class="tag">Read-only link to one session</span>}
        {signedIn && only === null && (
          <nav aria-label="Main">
            {NAV.map(([page, path]) => (
              <a key={page} href={path} aria-current={page === (place.page === "session" ? "sessions" : place.page) ? "page" : undefined}>
                {TITLES[page]}
              </a>
            ))}
          </nav>
        )}
        <span class="spring" />
        <Keys />
        <button class="quiet icon" aria-label={`Use ${theme} colours`} title={`Use ${theme} colours`} onClick={() => setPreference("theme", theme)}>
          <Icon name={isDark() ? "sun" : "moon"} />
        </button>
        {signedIn && (
          <button class="quiet leave" title={leave} onClick={signOut}>
            <Icon name="leave" />
            <span>{leave}</span>
          </button>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {!signedIn ? <Login /> : <Page place={place} only={only} />}
      </main>
    </>
  );
}

function Page({ place, only }: { place: Place; only: string | null }) {
  if (only !== null && !isOf(place, only)) {
    return (
      <Empty title="This link opens one session">
        <p>
          <a href={address(only)}>{only}</a>
        </p>
      </Empty>
    );
  }
  if (place.page === "overall") return <Overall />;
  if (place.page === "search") return <Search key={searchAddress(place.options)} asked={place.options} />;
  if (place.page === "store") return <Store id={place.node} />;
  if (place.page === "session") return <Session key={`${place.session}\n${place.branch}`} place={place} />;
  return <Sessions place={place} />;
}

/** Return whether a place is a view of that session. */
const isOf = ({ page, session, options }: Place, only: string): boolean =>
  page === "session" ? session === only : page === "search" && options.session === only;

const titleOf = (place: Place): string => (place.page === "session" ? place.session : TITLES[place.page]);

const TITLES = { overall: "Savings", search: "Search", store: "Graph store", sessions: "Sessions" };
const NAV = [["sessions", "#/"], ["search", "#/search"], ["overall", "#/overall"], ["store", "#/store"]] as const;

function skip(event: Event): void {
  event.preventDefault();
  (document.getElementById("view") ?? document.getElementById("main"))?.focus();
}
