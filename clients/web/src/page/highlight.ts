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

import { TimeBudget } from "./time-budget.ts";

export type Highlighted = string | { classes: string; children: Highlighted[] };

const LOWLIGHT = createLowlight({
  bash, c, cpp, css, diff, go, ini, java, javascript, json, markdown, python, rust, sql, typescript, xml, yaml,
});
LOWLIGHT.registerAlias({ bash: ["sh", "shell", "zsh", "console"], ini: ["toml"], xml: ["html", "svg"], typescript: ["tsx"], javascript: ["jsx"] });

/** The grammars' patterns may take time that grows with the square of a text, or worse: each piece is short. */
const PIECE_CHARS = 2_000;
const HIGHLIGHTING = new TimeBudget(1_000, 0.1);

/** The tree of a text in a language, null for an unknown one. Pieces for which there is no time left stay plain. */
export function highlight(text: string, language: string): Highlighted[] | null {
  const name = language.toLowerCase();
  if (!LOWLIGHT.registered(name)) return null;
  return cutCode(text).flatMap((piece) => HIGHLIGHTING.spend(() => highlightPiece(piece, name)) ?? piece);
}

function highlightPiece(text: string, name: string): Highlighted[] | null {
  try {
    return LOWLIGHT.highlight(name, text).children.map((node) => convert(node));
  } catch {
    return null; // nested too deeply for the highlighter
  }
}

/** Cut at the end of a line; where a statement is likely to begin, if that leaves enough. */
function cutCode(text: string): string[] {
  const pieces: string[] = [];
  let rest = text;
  while (rest.length > PIECE_CHARS) {
    const most = rest.slice(0, PIECE_CHARS);
    const statement = [...most.matchAll(/\n\n(?=\S)/g)].at(-1)?.index ?? 0;
    const at = statement > PIECE_CHARS / 4 ? statement + 2 : most.lastIndexOf("\n") + 1 || PIECE_CHARS;
    pieces.push(rest.slice(0, at));
    rest = rest.slice(at);
  }
  return [...pieces, rest];
}

/** Deeper spans are not drawn: each level takes a part of the stack. */
const MAX_DEPTH = 40;

function convert(node: RootContent | ElementContent, depth = 0): Highlighted {
  if (node.type === "text") return node.value;
  if (node.type !== "element") return "";
  if (depth > MAX_DEPTH) return textOf(node);
  const names = node.properties["className"];
  return { classes: Array.isArray(names) ? names.join(" ") : "", children: node.children.map((child) => convert(child, depth + 1)) };
}

function textOf(node: ElementContent): string {
  if (node.type === "text") return node.value;
  return node.type === "element" ? node.children.map(textOf).join("") : "";
}
