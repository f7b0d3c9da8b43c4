import { render } from "preact";
import { takeTokenFromAddress } from "./api";
import { App } from "./app";
import "./style.css";
import { applyTheme } from "./theme";

takeTokenFromAddress();
applyTheme();
addEventListener("hashchange", takeTokenFromAddress);
render(<App />, document.getElementById("app")!);
