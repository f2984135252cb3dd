// The start of the page: pair if the link has a code, connect, draw.

import { render } from "preact";

import "./style.css";
import "./print.css";
import { App } from "./app.tsx";
import { codeOf, pair, takeLink } from "./pairing.ts";

async function start(): Promise<void> {
  const link = takeLink();
  let problem = "";
  if (link) await pair(link).catch((error: Error) => (problem = error.message));
  render(<App problem={problem} fresh={link !== "" && !problem} />, document.getElementById("app")!);
}

// A link that is opened in a tab with the page changes only the fragment.
addEventListener("hashchange", () => {
  if (codeOf(location.hash)) location.reload();
});
void start();
