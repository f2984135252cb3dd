// Links of a transcript: they show where they lead and ask before they open.

import type { ComponentChildren } from "preact";

import { confirmDialog } from "./dialog.tsx";
import { visible } from "./text.ts";

/** The address if it may be opened: http, https or mail, absolute, without a name before an `@` that imitates a host. */
function safeUrl(url: string): URL | null {
  try {
    const parsed = new URL(url);
    return ["http:", "https:", "mailto:"].includes(parsed.protocol) && !parsed.username && !parsed.password ? parsed : null;
  } catch {
    return null;
  }
}

export function Link({ url, children }: { url: string; children: ComponentChildren }) {
  const target = safeUrl(url);
  if (!target) return <span class="dead-link" title={visible(url)}>{children}</span>;
  const open = async () => {
    if (await confirmDialog({ title: `Open ${target.host || "this address"}?`, text: "The agent wrote this link.", code: target.href, yes: "Open" })) {
      window.open(target.href, "_blank", "noopener,noreferrer");
    }
  };
  return <button type="button" class="link" title={visible(target.href)} onClick={() => void open()}>{children}</button>;
}
