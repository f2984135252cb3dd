// The conversation as one HTML file: what is shown, without scripts, which loads nothing.

import type { View } from "./store.ts";
import { oneLine } from "./text.ts";

/** How often earlier entries are fetched for an export. */
const MOST_PAGES = 50;

/** Save the conversation as it is drawn, with all that came before it. */
export async function exportSession(view: View): Promise<void> {
  for (let page = 0; page < MOST_PAGES && view.more; page += 1) await view.fetchEarlier();
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const shown = document.querySelector(".transcript");
  if (!shown) return;
  const copy = shown.cloneNode(true) as HTMLElement;
  removeControls(copy);
  const cut = view.more ? '<p class="notice warning">Earlier entries are not in this file: it has the newest of a long session.</p>' : "";
  for (const image of copy.querySelectorAll("img")) image.src = await dataUrl(image.src);
  const { state } = view.session;
  const title = oneLine(view.title, 100);
  const facts = escape(oneLine(`${state.model} · ${state.updated_at.slice(0, 16).replace("T", " ")} UTC`, 200));
  const policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  const page = [
    `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">`,
    `<meta name="viewport" content="width=device-width"><title>${escape(title)}</title><style>\n${styles()}\n</style></head>`,
    `<body class="exported"><h1>${escape(title)}</h1><p class="muted">${facts}</p>${cut}${copy.outerHTML}</body></html>\n`,
  ].join("\n");
  save(`${title.replace(/[^\p{L}\p{N}_.]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 60) || "session"}.html`, page);
}

/** Take out what does nothing in a file; what it would have shown is said to be missing. */
function removeControls(copy: HTMLElement): void {
  for (const control of copy.querySelectorAll("button")) {
    const { classList, textContent } = control;
    if (classList.contains("link")) control.replaceWith(...control.childNodes);
    else if (classList.contains("more")) control.replaceWith(` […] ${textContent.replace(" not shown. Show all", " not in this file.")}`);
    else if (control.closest(".media-line")) control.replaceWith(`[${textContent.replace("Show ", "")} is not in this file.]`);
    else control.remove();
  }
  for (const details of copy.querySelectorAll("details.timeline")) {
    if (details.childElementCount === 1) details.replaceWith(...details.firstElementChild!.childNodes);
  }
}

/** A text as it stands in HTML. */
function escape(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}

function styles(): string {
  return [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join("\n");
}

async function dataUrl(url: string): Promise<string> {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  canvas.getContext("2d")?.drawImage(image, 0, 0);
  return canvas.toDataURL("image/png");
}

function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/html" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
