import { render } from "preact";
import { followLink } from "./api";
import { App } from "./app";
import { showReorderingCharacters } from "./bidi";
import "./style.css";
import { followTheme } from "./theme";

followTheme();
showReorderingCharacters();
addEventListener("hashchange", followLink);
await followLink();
render(<App />, document.getElementById("app")!);
