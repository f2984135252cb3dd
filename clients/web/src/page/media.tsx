// Images of a session: fetched when asked for, shown from memory.

import { useEffect, useState } from "preact/hooks";

import type { Media } from "../client/index.ts";
import type { View } from "./store.ts";
import { oneLine } from "./text.ts";

/** Pictures only: an SVG is a document. */
const SHOWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

export function MediaView({ view, media }: { view: View; media: Media }) {
  const [url, setUrl] = useState("");
  const [error, setError] = useState("");
  const name = oneLine(media.name || media.mime_type, 80);
  useEffect(() => () => { if (url) URL.revokeObjectURL(url); }, [url]);
  const show = async () => {
    try {
      const bytes = await view.session.blob(media.blob);
      setUrl(URL.createObjectURL(new Blob([bytes], { type: media.mime_type })));
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  if (url) return <img class="media" src={url} alt={name} />;
  return (
    <p class="media-line">
      {SHOWN.has(media.mime_type) ? <button type="button" class="button small" onClick={() => void show()}>Show {name}</button> : <span class="muted">{name}</span>}
      {error ? <span class="error-text"> {error}</span> : null}
    </p>
  );
}
