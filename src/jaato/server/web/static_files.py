"""Serves the built files of the web client, from memory and under a strict content security policy."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache, cached_property
from pathlib import Path

from jaato.server.auth.gate import send_refusal, server_error
from jaato.server.http.asgi import Receive, Refused, Scope, Send, accepts_gzip, header

BUILT = Path(__file__).parent / "built"
"""What `npm run build` in `clients/web` writes."""
ASSETS = "/assets/"
"""The path of files whose names contain a hash of their content."""
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "require-trusted-types-for 'script'; trusted-types 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The page makes its elements from parsed text and never from HTML, so it needs no Trusted Types policy."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "vary": "accept-encoding",
}


class Asset:
    """One file with its headers."""

    def __init__(self, path: str, body: bytes) -> None:
        self.body = body
        self.headers = {
            **HEADERS,
            "content-type": KINDS[Path(path).suffix or ".html"],
            "cache-control": "public, max-age=31536000, immutable" if path.startswith(ASSETS) else "no-cache",
            "etag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"',
        }

    @cached_property
    def compressed(self) -> bytes:
        """The file, compressed."""
        return gzip.compress(self.body, 9, mtime=0)


@cache
def load_assets() -> dict[str, Asset]:
    """The files by their paths, all read at once: an upgrade under a running server changes none of them."""
    files = {
        f"/{file.relative_to(BUILT).as_posix()}": file for file in BUILT.rglob("*") if file.suffix in KINDS
    }
    start = {"/": files.pop("/index.html")} if "/index.html" in files else {}
    return {path: Asset(path, file.read_bytes()) for path, file in (start | files).items()}


class StaticFiles:
    """The files of the web client as an ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer GET and HEAD with the file at the path."""
        try:
            asset = find_asset(scope)
        except Refused as refused:
            await send_refusal(scope, send, refused, server_error)
            return
        named = dict(asset.headers)
        body = asset.body
        known = [one.strip() for one in (header(scope, b"if-none-match") or "").split(",")]
        status = 304 if named["etag"] in known else 200
        if accepts_gzip((header(scope, b"accept-encoding") or "").encode()):
            named["content-encoding"], body = "gzip", asset.compressed
        if status == 200:
            named["content-length"] = str(len(body))
        if status == 304 or scope["method"] == "HEAD":
            body = b""
        headers = [(name.encode(), value.encode()) for name, value in named.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def find_asset(scope: Scope) -> Asset:
    """The file that a request asks for. Raises `Refused`."""
    asset = load_assets().get(scope["path"])
    if asset is None:
        raise Refused(404, "The page has no such file.")
    if scope["method"] not in ("GET", "HEAD"):
        raise Refused(405, "The page is read with GET.", allow="GET, HEAD")
    return asset
