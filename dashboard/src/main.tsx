import "./style.css";
import { render } from "preact";
import { App } from "./app";
import { followTheme } from "./palette";
import { followAddress } from "./route";

followTheme();
followAddress();
const root = document.getElementById("app");
if (root) {
  render(<App />, root);
}
