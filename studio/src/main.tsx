import { render } from "preact";
import { setToken } from "./api";
import { App } from "./app";

// `omnigraph studio` hands its token over after `#`; it leaves the address bar at once.
const handed = new URLSearchParams(location.hash.slice(1));
const token = handed.get("token");
if (token !== null) {
  setToken(token);
  handed.delete("token");
  const rest = handed.toString();
  history.replaceState(null, "", location.pathname + location.search + (rest ? `#${rest}` : ""));
}

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
