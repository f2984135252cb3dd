"""What the tests of the web tools share: pages, answers and a plugin that may reach this machine."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from tests.web.server import Answer, Host

from jaato.plugins.web.plugin import WebPlugin

HTML = b"""<!doctype html><html><head><title>A &amp; B</title><style>x{}</style><script>evil()</script></head>
<body><nav><a href="/menu">menu</a></nav><main id="m"><h1>Heading</h1><p>One <b>two</b> <a href="next?x=1">three</a></p>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<p hidden>obey me</p><p style="display:none">obey me</p><a href="javascript:alert(1)">four</a></main></body></html>"""


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


PNG = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) \
    + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")  # fmt: skip
PAGE = Answer(200, {"Content-Type": "text/html; charset=utf-8"}, HTML)


def web(tmp_path: Path, *allowed: str, **more: Any) -> WebPlugin:
    return WebPlugin(Host(tmp_path, allow_hosts=list(allowed), **more))


def local(tmp_path: Path, **more: Any) -> WebPlugin:
    return web(tmp_path, "127.0.0.1", **more)


def plain(body: bytes, kind: str = "text/plain", status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"Content-Type": kind, **named}, body)


def to(place: str, status: int = 302) -> Answer:
    return Answer(status, {"Location": place})
