import { render } from "preact";
import { followLink } from "./api";
import { App } from "./app";
import "./style.css";
import { applyTheme } from "./theme";

applyTheme();
addEventListener("hashchange", followLink);
await followLink();
render(<App />, document.getElementById("app")!);
