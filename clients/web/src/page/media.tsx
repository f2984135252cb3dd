// Images of a session: those of people are shown when they come into view, others when asked for; from memory.

import { useEffect, useRef, useState } from "preact/hooks";

import type { Media } from "../client/index.ts";
import type { View } from "./store.ts";
import { oneLine } from "./text.ts";

/** Pictures only: an SVG is a document. */
const SHOWN = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

export function MediaView({ view, media, atOnce = false }: { view: View; media: Media; atOnce?: boolean }) {
  const [url, setUrl] = useState("");
  const [error, setError] = useState("");
  const place = useRef<HTMLParagraphElement>(null);
  const name = oneLine(media.name || media.mime_type, 80);
  const isImage = SHOWN.has(media.mime_type);
  useEffect(() => () => { if (url) URL.revokeObjectURL(url); }, [url]);
  const show = async () => {
    setError("");
    try {
      const bytes = await view.session.blob(media.blob);
      setUrl(URL.createObjectURL(new Blob([bytes], { type: media.mime_type })));
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  useEffect(() => {
    if (!atOnce || !isImage) return undefined;
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      void show();
    });
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  if (url) return <img class="media" src={url} alt={name} onError={() => { setUrl(""); setError("These bytes are no image that this browser can show."); }} />;
  return (
    <p ref={place} class="media-line">
      {isImage ? <button type="button" class="button small" onClick={() => void show()}>Show {name}</button> : <span class="muted">{name}</span>}
      {error ? <span class="error-text"> {error}</span> : null}
    </p>
  );
}
