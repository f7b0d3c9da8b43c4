import { render } from "preact";
import { followLink } from "./api";
import { App } from "./app";
import "./style.css";
import { followTheme } from "./theme";

followTheme();
addEventListener("hashchange", followLink);
await followLink();
render(<App />, document.getElementById("app")!);
