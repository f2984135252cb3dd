"""A web server on loopback with a function for each path."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

Stream = Callable[[Any], None]


class Reply(NamedTuple):
    """What a server says; a body that is a function writes to the socket itself."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes | Stream = b""


class Request(NamedTuple):
    """What a server is asked."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    form: dict[str, str]
    body: bytes


Route = Callable[[Request], Reply]


def as_json(document: Any, status: int = 200) -> Reply:
    """A JSON answer."""
    return Reply(status, {"Content-Type": "application/json"}, json.dumps(document).encode())


def first(text: str) -> dict[str, str]:
    """The parameters of a query or form."""
    return {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}


class Web:
    """A web server with one function for each path; what was asked is kept."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.seen: list[Request] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                form = first(body.decode()) if "form" in headers.get("content-type", "") else {}
                request = Request(self.command, parts.path, first(parts.query), headers, form, body)
                web.seen.append(request)
                route = web.routes.get(parts.path)
                reply = route(request) if route else Reply(404, {}, b"nothing here")
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if callable(reply.body):
                    self.end_headers()
                    try:
                        reply.body(self.wfile)
                    except OSError:
                        pass
                    self.close_connection = True
                    return
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *_: Any) -> None:
                return

        setattr(Handler, "do_POST", Handler.do_GET)  # noqa: B010 - a name the server looks for
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"

    def asked(self, path: str) -> list[Request]:
        """The requests for a path."""
        return [request for request in self.seen if request.path == path]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Serve within the block."""
        self.thread.start()
        try:
            yield
        finally:
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()
