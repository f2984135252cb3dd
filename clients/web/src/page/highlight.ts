// The highlighter, a file of its own: a tree of spans with classes, never HTML.

import type { ElementContent, RootContent } from "hast";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

export type Highlighted = string | { classes: string; children: Highlighted[] };

const LOWLIGHT = createLowlight({
  bash, c, cpp, css, diff, go, ini, java, javascript, json, markdown, python, rust, sql, typescript, xml, yaml,
});
LOWLIGHT.registerAlias({ bash: ["sh", "shell", "zsh", "console"], ini: ["toml"], xml: ["html", "svg"], typescript: ["tsx"], javascript: ["jsx"] });

/** The tree of a text in a language, null for an unknown one. */
export function highlight(text: string, language: string): Highlighted[] | null {
  const name = language.toLowerCase();
  if (!LOWLIGHT.registered(name)) return null;
  return LOWLIGHT.highlight(name, text).children.map(convert);
}

function convert(node: RootContent | ElementContent): Highlighted {
  if (node.type === "text") return node.value;
  if (node.type !== "element") return "";
  const names = node.properties["className"];
  return { classes: Array.isArray(names) ? names.join(" ") : "", children: node.children.map(convert) };
}

