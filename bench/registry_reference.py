"""The registry's contract on the standard library's server: what the figures of ours are held against."""

from __future__ import annotations

import json
import re
import sys
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

VERSION = {"schema_version": "0.1.0"}
CORE = {"text": {"type": "string", "description": "what to give back"}}


def definitions(count: int) -> dict[str, dict[str, Any]]:
    """So many tools, the first of which is `echo`."""
    made = {}
    for number in range(count):
        name = f"echo_{number}" if number else "echo"
        text = "Give back a text as it is. Use it to see whether the registry answers."
        schema = {"type": "object", "properties": CORE, "required": ["text"], "additionalProperties": False}
        made[name] = {**VERSION, "name": name, "description": text, "version": "0.1.0", "parameters": schema}
    return made


class Handler(BaseHTTPRequestHandler):
    """Answers the three routes."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    tools: dict[str, dict[str, Any]]
    validators: dict[str, Any]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def answer(self, status: int, value: Any) -> None:
        """Send JSON."""
        body = json.dumps(value, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Request-Id", self.headers.get("X-Request-Id") or uuid.uuid4().hex)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, code: str, details: Any = None) -> None:
        """A call that was not made."""
        error = {**VERSION, "code": code, "message": code, "retryable": False}
        if details is not None:
            error["details"] = details
        self.answer(status, {**VERSION, "ok": False, "error": error, "metrics": {"latency_ms": 0}})

    def do_GET(self) -> None:
        """The list, or a definition."""
        path = self.path.partition("?")[0]
        if path == "/v1/tools":
            found = self.tools.values()
            self.answer(200, [{"name": one["name"], "description": one["description"]} for one in found])
            return
        match = re.fullmatch(r"/v1/tools/([^/]+)", path)
        tool = self.tools.get(unquote(match[1])) if match else None
        if tool is None:
            error = {**VERSION, "code": "tool.not_found", "message": "There is none.", "retryable": False}
            self.answer(404, error)
        else:
            self.answer(200, tool)

    def do_POST(self) -> None:
        """A call."""
        begun = time.perf_counter()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match = re.fullmatch(r"/v1/tools/([^/]+):invoke", self.path)
        name = unquote(match[1]) if match else ""
        if name not in self.tools:
            return self.refuse(404, "tool.not_found")
        try:
            given = json.loads(body.decode(), object_pairs_hook=once, parse_constant=none)
        except ValueError:
            return self.refuse(400, "request.invalid_json")
        if not isinstance(given, dict) or not isinstance(given.get("args"), dict):
            return self.refuse(400, "request.invalid_shape")
        for part in ("context", "trace"):
            if not isinstance(given.get(part, {}), dict):
                return self.refuse(400, "request.invalid_shape")
        issues = [
            {"path": "".join(f"/{step}" for step in error.instance_path), "message": error.message}
            for error in self.validators[name].iter_errors(given["args"])
        ]
        if issues:
            return self.refuse(400, "tool.invalid_args", {"issues": issues})
        result = {"text": given["args"]["text"]}
        metrics = {"latency_ms": round((time.perf_counter() - begun) * 1e3, 3)}
        return self.answer(200, {**VERSION, "ok": True, "result": result, "metrics": metrics})


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names stand once."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError
    return made


def none(_: str) -> None:
    """No constant but those of JSON."""
    raise ValueError


class Server(ThreadingHTTPServer):
    """A thread for each connection, and a queue of connections as long as ours."""

    daemon_threads = True
    request_queue_size = 1_024

    def handle_error(self, *_: Any) -> None:
        """A client has gone."""


def main() -> None:
    """Serve so many tools at any port, and say which."""
    Handler.tools = definitions(int(sys.argv[1]))
    Handler.validators = {
        name: jsonschema_rs.validator_for(one["parameters"]) for name, one in Handler.tools.items()
    }
    with Server(("127.0.0.1", 0), Handler) as server:
        print(f"serving at http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
