// Markdown as elements. The syntax tree is rendered node by node: no HTML is ever parsed, so nothing in a text can run.

import type { Nodes, RootContent, Table } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";
import { Fragment, type ComponentChildren, type VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { Code, LongText } from "./code.tsx";
import { Link } from "./link.tsx";
import { prose } from "./text.ts";
import { TimeBudget } from "./time-budget.ts";

/** Longer texts are shown plain: what a parser needs grows with them. */
const PARSED_CHARS = 60_000;
/** The weight of a block that is parsed: a parser's time grows with its square for what is made to slow it down. */
const PARSED_WEIGHT = 1_000;
const PARSING = new TimeBudget(3_000, 0.2);
const MAX_DEPTH = 60;
const MAX_DEFINITIONS = 200;
/** The beginning of an item of a list that is in no other. */
const ITEM = /^(?:[-*+]|\d{1,9}[.)])\s/;
/** The beginning of a list that may follow a paragraph without a blank line. */
const LIST = /^(?:[-*+]|1[.)])[ \t]+\S/;

/** A whole text. */
export function Markdown({ text }: { text: string }) {
  const content = useMemo(() => render(text), [text]);
  return <div class="prose" dir="auto">{content}</div>;
}

/** A text that is still arriving: its finished blocks are cut off and parsed once, the last one at each change. */
export function StreamedMarkdown({ text }: { text: string }) {
  const finished = useRef<{ text: string; nodes: VNode[] }>({ text: "", nodes: [] });
  if (!text.startsWith(finished.current.text)) finished.current = { text: "", nodes: [] };
  const { current } = finished;
  const blocks = splitBlocks(text.slice(current.text.length));
  const last = blocks.pop();
  for (const block of blocks) current.nodes.push(<Finished key={current.nodes.length} text={block.text} />);
  current.text = text.slice(0, blocks.reduce((length, block) => length + block.text.length, current.text.length));
  return (
    <div class="prose streamed" dir="auto">
      {current.nodes}
      {last?.fence ? <Code key={current.nodes.length} text={last.fence.code} language={last.fence.language} still={last.fence.open} /> : <GrowingBlock key={current.nodes.length} text={last?.text ?? ""} />}
    </div>
  );
}

function Finished({ text }: { text: string }) {
  return useMemo(() => <>{render(text)}</>, [text]);
}

/** The share of the time that may go into parsing a block that still grows. */
const PARSING_SHARE = 0.1;

/** A block that still grows: a long one is parsed less often, and what came since is shown as it is, until it is time again. */
function GrowingBlock({ text }: { text: string }) {
  const parsed = useRef<{ text: string; content: ComponentChildren; at: number; cost: number }>({ text: "", content: null, at: 0, cost: 0 });
  const [, setTurn] = useState(0);
  const { current } = parsed;
  const now = performance.now();
  if (!text.startsWith(current.text) || now - current.at > current.cost / PARSING_SHARE) {
    parsed.current = { text, content: render(text), at: now, cost: performance.now() - now };
  }
  useEffect(() => {
    const { text: done, at, cost } = parsed.current;
    if (done === text) return;
    const timer = setTimeout(() => setTurn((turn) => turn + 1), at + cost / PARSING_SHARE - performance.now() + 1);
    return () => clearTimeout(timer);
  });
  return <>{parsed.current.content}{prose(text.slice(parsed.current.text.length))}</>;
}

interface Block {
  text: string;
  /** Of a block that is code: it needs no parser. */
  fence?: { language: string; code: string; open: boolean };
}

/** The marks of a line that opens or closes a fence, and what follows them. */
const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)/s;

/** Cut at fences, and at blank lines before a line that begins a block of its own. Fences in lists belong to the list. */
function splitBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  let start = 0;
  let fence: { marks: string; indent: number; language: string; from: number; inItem: boolean } | null = null;
  let blank = false;
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline + 1;
    const line = text.slice(at, Math.min(end, at + 200));
    const [, indent = "", marks = "", info = ""] = FENCE.exec(line) ?? [];
    if (fence) {
      if (marks.startsWith(fence.marks) && !info.trim()) {
        if (!fence.inItem) {
          blocks.push({ text: text.slice(start, end), fence: { language: fence.language, code: codeOf(text.slice(fence.from, at), fence.indent), open: false } });
          start = end;
        }
        fence = null;
        blank = true;
      }
    } else {
      const inItem = /^\s/.test(line) && ITEM.test(text.slice(start, start + 12));
      const begins = (blank && /^\S/.test(line) && !ITEM.test(line)) || (marks && !inItem) || (LIST.test(line) && !ITEM.test(text.slice(start, start + 12)));
      if (at > start && begins) {
        blocks.push({ text: text.slice(start, at) });
        start = at;
      }
      blank = line.trim() === "";
      if (marks) fence = { marks, indent: indent.length, language: info.trim().split(/\s/)[0] ?? "", from: end, inItem };
    }
    at = end;
  }
  const rest = text.slice(start);
  if (fence && !fence.inItem) blocks.push({ text: rest, fence: { language: fence.language, code: codeOf(text.slice(fence.from), fence.indent), open: true } });
  else if (rest) blocks.push({ text: rest });
  return blocks;
}

function codeOf(text: string, indent: number): string {
  const code = text.replace(/\n$/, "");
  return indent ? code.replace(new RegExp(`^ {1,${indent}}`, "gm"), "") : code;
}

function render(text: string): ComponentChildren {
  const clean = prose(text);
  if (clean.length > PARSED_CHARS) return <Plain text={clean} />;
  const definitions = clean.match(/^ {0,3}\[[^\]\n]{1,200}\]:.{0,500}$/gm)?.slice(0, MAX_DEFINITIONS) ?? [];
  return splitBlocks(clean).flatMap(({ text: block, fence }, index) =>
    fence ? <Code key={index} text={fence.code} language={fence.language} />
    : lightPieces(block).map((piece, at) => <Fragment key={`${index}.${at}`}>{PARSING.spend(() => renderPiece(piece, definitions)) ?? <Plain text={piece} />}</Fragment>),
  );
}

function Plain({ text }: { text: string }) {
  return <pre class="plain"><LongText text={text} /></pre>;
}

/** A piece of a text as elements, with the definitions of the whole text that it refers to; null for what is too costly. */
function renderPiece(text: string, definitions: readonly string[]): ComponentChildren {
  if (weightOf(text) > PARSED_WEIGHT) return null;
  const known = text.includes("[") ? definitions.filter((line) => text.includes(line.slice(line.indexOf("["), line.indexOf("]:") + 1))) : [];
  try {
    const tree = fromMarkdown([text, ...known].join("\n\n"), { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
    const urls = new Map<string, string>();
    for (const node of tree.children) if (node.type === "definition") urls.set(node.identifier, node.url);
    const own = tree.children.filter((node) => (node.position?.start.offset ?? 0) < text.length);
    return children(own, { definitions: urls, depth: 0 });
  } catch {
    return null; // nested too deeply for the parser
  }
}

/** What may cost a parser more than its length: marks, lines, and numbers of lists; cells of tables cost little. */
function weightOf(text: string): number {
  const marks = text.match(/[*_~`[\]<>!&#=+\-\\\n]|\d[.)]/g)?.length ?? 0;
  return /^[^\n]*\|[^\n]*\n[\s|:-]+\n/.test(text) ? marks - (text.match(/-/g)?.length ?? 0) : marks;
}

/** A list that is too heavy as lists of fewer items each. */
function lightPieces(text: string): string[] {
  if (!ITEM.test(text) || weightOf(text) <= PARSED_WEIGHT) return [text];
  const pieces: string[] = [];
  let weight = 0;
  for (const item of text.split(/\n(?=(?:[-*+]|\d{1,9}[.)])\s)/)) {
    const own = weightOf(item) + 1;
    weight += own;
    if (pieces.length && weight <= PARSED_WEIGHT / 2) pieces[pieces.length - 1] += `\n${item}`;
    else {
      pieces.push(item);
      weight = own;
    }
  }
  return pieces;
}

interface Context {
  definitions: Map<string, string>;
  depth: number;
}

function children(nodes: readonly Nodes[], context: Context): ComponentChildren {
  const inner = { ...context, depth: context.depth + 1 };
  return nodes.map((node, index) => element(node as RootContent, inner, index));
}

function element(node: RootContent, context: Context, key: number): VNode | string | null {
  if (context.depth > MAX_DEPTH) return "…";
  const inner = () => ("children" in node ? children(node.children as Nodes[], context) : null);
  switch (node.type) {
    case "text":
      return node.value;
    case "html":
      return node.value;
    case "paragraph":
      return <p key={key}>{inner()}</p>;
    case "heading":
      return <p key={key} role="heading" aria-level={Math.min(node.depth + 2, 6)} class={`h h${node.depth}`}>{inner()}</p>;
    case "strong":
      return <strong key={key}>{inner()}</strong>;
    case "emphasis":
      return <em key={key}>{inner()}</em>;
    case "delete":
      return <del key={key}>{inner()}</del>;
    case "inlineCode":
      return <code key={key}>{node.value}</code>;
    case "code":
      return <Code key={key} text={node.value} language={node.lang ?? ""} />;
    case "blockquote":
      return <blockquote key={key}>{inner()}</blockquote>;
    case "list":
      return node.ordered ? <ol key={key} start={node.start ?? 1}>{inner()}</ol> : <ul key={key}>{inner()}</ul>;
    case "listItem":
      return (
        <li key={key} class={node.checked == null ? undefined : "task"}>
          {node.checked == null ? null : <span class="box" role="img" aria-label={node.checked ? "done" : "open"}>{node.checked ? "☑" : "☐"}</span>}
          {node.spread ? inner() : node.children.map((child, index) => (child.type === "paragraph" ? children(child.children, context) : element(child, context, index)))}
        </li>
      );
    case "table":
      return (
        <div key={key} class="table" tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>{node.children.slice(0, 1).map((row) => <tr>{row.children.map((cell, at) => <th scope="col" class={alignment(node, at)}>{children(cell.children, context)}</th>)}</tr>)}</thead>
            <tbody>{node.children.slice(1).map((row) => <tr>{row.children.map((cell, at) => <td class={alignment(node, at)}>{children(cell.children, context)}</td>)}</tr>)}</tbody>
          </table>
        </div>
      );
    case "thematicBreak":
      return <hr key={key} />;
    case "break":
      return <br key={key} />;
    case "link":
      return <Link key={key} url={node.url}>{inner()}</Link>;
    case "linkReference":
      return <Link key={key} url={context.definitions.get(node.identifier) ?? ""}>{inner()}</Link>;
    case "image":
      return <Link key={key} url={node.url}>{`[image: ${node.alt || node.url}]`}</Link>;
    case "imageReference":
      return <Link key={key} url={context.definitions.get(node.identifier) ?? ""}>{`[image: ${node.alt ?? ""}]`}</Link>;
    case "footnoteReference":
      return <sup key={key}>{node.label ?? node.identifier}</sup>;
    case "footnoteDefinition":
      return <div key={key} class="footnote"><sup>{node.label ?? node.identifier}</sup> {inner()}</div>;
    default:
      return null;
  }
}

function alignment(table: Table, column: number): string | undefined {
  return table.align?.[column] ?? undefined;
}
