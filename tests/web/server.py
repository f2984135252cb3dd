"""A real HTTP server on loopback that answers as it is told, and the web tools pointed at it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from jaato.abc.plugin import Plugin
from jaato.tools.call import Call, Output
from jaato.tools.filesystem.containment import Roots
from jaato.tools.tool import tools_of


class Seen(NamedTuple):
    """A request as the server got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What the server says; a body that is a function writes to the socket itself."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes | Callable[[Any], None] = b""


class Site:
    """A server and what it was asked."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.seen: list[Seen] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                given = {name.lower(): value for name, value in self.headers.items()}
                site.seen.append(Seen(self.command, self.path, given, body))
                answer = site.answers.get(
                    self.path.partition("?")[0],
                    site.answers.get(self.path) or Answer(404, {}, b"nothing here"),
                )
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if callable(answer.body):
                    self.end_headers()
                    try:
                        answer.body(self.wfile)
                    except OSError:
                        pass
                    self.close_connection = True
                    return
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)

            def log_message(self, *_: Any) -> None:
                return

        for method in ("POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
            setattr(Handler, f"do_{method}", Handler.do_GET)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False  # closing waits for those that answer
        self.port = int(self.server.server_address[1])
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(**answers: Answer) -> Iterator[Site]:
    """A site at work; `a_b` answers at `/a/b`, `index` at `/`."""
    site = Site(
        {
            "/" + ("" if name == "index" else name.replace("_", "/")): answer
            for name, answer in answers.items()
        }
    )
    site.thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        site.server.server_close()
        site.thread.join()


class Host:
    """A host with this configuration; names are looked up in `names`, and nowhere else."""

    def __init__(
        self,
        workspace: Path,
        names: Mapping[str, list[list[str]]] | None = None,
        environ: Mapping[str, str] | None = None,
        **config: Any,
    ) -> None:
        self.workspace = workspace
        self.config: Mapping[str, Any] = config
        self.asked: list[str] = []
        self.names = {name: list(answers) for name, answers in (names or {}).items()}
        self.services = {
            "environ": {"PATH": os.defpath, **(environ or {})},
            "resolve": self.resolve,
            "roots": Roots(workspace),
        }

    async def resolve(self, host: str, _port: int) -> list[str]:
        """The next answer for a name; the last one stays."""
        self.asked.append(host)
        answers = self.names.get(host)
        if not answers:
            raise OSError(-2, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def service(self, name: str) -> Any:
        return self.services[name]


def ask(plugin: Plugin, tool_name: str, /, session_id: str = "s", keep: Any = None, **arguments: Any) -> Any:
    """Call a tool on valid arguments."""
    tool = {tool.name: tool for tool in tools_of(plugin, "web")}[tool_name]
    assert not tool.issues(arguments), tool.issues(arguments)
    call = Call("1", tool_name, arguments, session_id=session_id)
    if keep is not None:
        call.keep = keep
    return anyio.run(lambda: tool.run(arguments, call))


def text(output: Any) -> str:
    """What the model reads."""
    assert isinstance(output, Output)
    return output.text
