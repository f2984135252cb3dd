// Markdown as elements. The syntax tree is rendered node by node: no HTML is ever parsed, so nothing in a text can run.

import type { Nodes, RootContent, Table } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";
import type { ComponentChildren, VNode } from "preact";
import { useMemo, useRef } from "preact/hooks";

import { Code } from "./code.tsx";
import { Link } from "./link.tsx";
import { prose } from "./text.ts";

/** Longer texts are shown plain: what a parser needs grows with them. */
const PARSED_CHARS = 60_000;
const MAX_DEPTH = 60;

/** A whole text. */
export function Markdown({ text }: { text: string }) {
  const content = useMemo(() => render(text), [text]);
  return <div class="prose" dir="auto">{content}</div>;
}

/** A text that is still arriving: its finished blocks are parsed once, the last one at each change. */
export function StreamedMarkdown({ text }: { text: string }) {
  const blocks = splitBlocks(text);
  return (
    <div class="prose streamed" dir="auto">
      {blocks.map((block, index) =>
        block.open ? <Code key={index} text={block.text} language="" still />
        : index < blocks.length - 1 ? <Block key={index} text={block.text} />
        : <GrowingBlock key={index} text={block.text} />,
      )}
    </div>
  );
}

function Block({ text }: { text: string }) {
  return useMemo(() => <>{render(text)}</>, [text]);
}

/** The share of the time that may go into parsing a block that still grows. */
const PARSING_SHARE = 0.1;

/** A block that still grows: a long one is parsed less often, and what came since is shown as it is. */
function GrowingBlock({ text }: { text: string }) {
  const parsed = useRef<{ text: string; content: ComponentChildren; at: number; cost: number }>({ text: "", content: null, at: 0, cost: 0 });
  const { current } = parsed;
  const now = performance.now();
  if (!text.startsWith(current.text) || now - current.at > current.cost / PARSING_SHARE) {
    parsed.current = { text, content: render(text), at: now, cost: performance.now() - now };
  }
  return <>{parsed.current.content}{prose(text.slice(parsed.current.text.length))}</>;
}

/** Cut at blank lines outside of fences, before a line that begins a block of its own. */
export function splitBlocks(text: string): { text: string; open: boolean }[] {
  const blocks: { text: string; open: boolean }[] = [];
  let start = 0;
  let fence = "";
  let fenceEnd = 0;
  let blank = false;
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline + 1;
    const line = text.slice(at, Math.min(end, at + 200));
    if (fence) {
      if (new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`).test(line)) {
        fence = "";
        blank = true;
      }
    } else {
      const opening = /^ {0,3}(`{3,}|~{3,})/.exec(line);
      if ((blank && /^\S/.test(line) && !/^([-*+]|\d+[.)])\s/.test(line)) || (opening && at > start)) {
        blocks.push({ text: text.slice(start, at), open: false });
        start = at;
      }
      blank = line.trim() === "";
      if (opening) {
        fence = opening[1]!;
        fenceEnd = end;
      }
    }
    at = end;
  }
  if (start < text.length) blocks.push({ text: fence ? text.slice(fenceEnd) : text.slice(start), open: fence !== "" });
  return blocks;
}

function render(text: string): ComponentChildren {
  const clean = prose(text);
  if (clean.length > PARSED_CHARS) return <pre class="plain">{clean}</pre>;
  const tree = fromMarkdown(clean, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] });
  const definitions = new Map<string, string>();
  for (const node of tree.children) if (node.type === "definition") definitions.set(node.identifier, node.url);
  return children(tree.children, { definitions, depth: 0 });
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
