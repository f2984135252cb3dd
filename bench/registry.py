"""The tool registry beside that of the reference package, which pip installs for the run."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.row import Row
from bench.startup import environ_for

WARM_S, MEASURED_S, ROUNDS = 0.1, 0.4, 3
CROWD = 1_000
TOOLS = 5_000
MAX_PART_BYTES = 65_536
KINDS = ("list", "get", "invoke")
CONNECTIONS = (1, 16, 64)
CALL_US = 220
CALLS = 2_000
PAGE = 0.6
CALL = {1: 2.0, 16: 1.5, 64: 1.3}
"""The CPU time of a page and, by connections, of a call, in that of the reference's, which has a connection and a thread for each
request. A call of ours is permitted, redacted and in the log twice, each time durably, which the reference does not do; calls at
once share their commits."""
REFERENCE = "jarvis-tool-registry==0.1.0a5"
AGAINST = "jarvis-tool-registry"
SERVE = """
import os
import sys
from types import ModuleType
from jarvis_model import ToolDefinition
from tool_registry.catalog import Tool
from tool_registry.domains.core import load_tools
from tool_registry.server import ToolRegistryServer

def load_many():
    echo = load_tools()[0]
    known = echo.definition
    names = [f"echo_{number}" if number else "echo" for number in range(int(sys.argv[2]))]
    return [Tool(ToolDefinition(name, known.description, known.parameters), echo.handler) for name in names]

many = sys.modules["tool_registry.domains.many"] = ModuleType("many")
many.load_tools = load_many
sys.stderr = open(os.devnull, "w")
server = ToolRegistryServer(host="127.0.0.1", port=0, domains=[sys.argv[1]])
print(f"serving at http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
"""
BODY = json.dumps({"args": {"text": "hello there"}, "trace": {"flow_id": "f1", "step_id": "s1"}}).encode()
DOMAIN = """
from jaato.runtime.domains.core import load_tools as core
from jaato.tools.tool import tool, tool_from

def made(number, description):
    async def echo(text: str) -> dict[str, str]:
        return {"text": text}
    echo.__name__, echo.__doc__ = f"echo_{number}", description
    return tool_from(tool(access="read")(echo))

def load_tools():
    echo = core()[0]
    return [echo, *(made(number, echo.spec.description) for number in range(1, COUNT))]
"""


class Load(NamedTuple):
    """What was measured: requests a second, the 99th percentile of their latencies in seconds, and how many there were."""

    rate: float
    p99_s: float
    requests: int


@contextmanager
def served(command: list[str], environ: dict[str, str]) -> Iterator[tuple[int, int]]:
    """A server's port and process id, while it serves."""
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            yield int(process.stdout.readline().rpartition(":")[2]), process.pid
        finally:
            process.terminate()


@contextmanager
def serve_reference(home: Path, domain: str, count: int = 0) -> Iterator[tuple[int, int]]:
    """The server of the reference package, with the tools of its domain `core` or `many`, so many `echo`."""
    packages = home / "reference"
    if not packages.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), REFERENCE]
        subprocess.run(pip, check=True)
    with served([sys.executable, "-c", SERVE, domain, str(count)], {"PYTHONPATH": str(packages)}) as found:
        yield found


@contextmanager
def both(home: Path, count: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The reference and ours, with so many tools."""
    domain = home / f"domain_{count}.py"
    domain.write_text(DOMAIN.replace("COUNT", str(count)))
    environ = environ_for(home, "http://127.0.0.1:9/v1")
    ours = ["-m", "jaato", "registry", "serve", "--port", "0", "--workspace", str(home)]
    with (
        serve_reference(home, "many", count) as reference,
        served([sys.executable, *ours, "--domains", str(domain)], environ) as mine,
    ):
        yield reference, mine


def request(kind: str, port: int, *lines: str) -> bytes:
    """One request of a kind."""
    path = {"list": "/v1/tools", "get": "/v1/tools/echo", "invoke": "/v1/tools/echo:invoke"}[kind]
    method, body = ("POST", BODY) if kind == "invoke" else ("GET", b"")
    head = [
        f"{method} {path} HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        "accept: */*",
        "user-agent: bench",
        *lines,
    ]
    if body:
        head += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


class Line:
    """A connection with one request under way. `closes` says that the server closes it after the response, as those of HTTP/1.0
    do: the next request needs another."""

    def __init__(self, port: int, data: bytes, *, blocking: bool = True) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(blocking)
        self.socket.connect_ex(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.closes = False
        self._data = data
        self._got = b""
        self._begun = 0.0
        self._wanted = 0

    def ask(self) -> None:
        """Send the request."""
        self._begun = time.perf_counter()
        self._got, self._wanted = b"", 0
        self.socket.send(self._data)

    def answered(self) -> float | None:
        """Seconds the answer took, None while it is not whole."""
        self._got += self.socket.recv(max(MAX_PART_BYTES, self._wanted - len(self._got)))
        if not self._wanted:
            end = self._got.find(b"\r\n\r\n")
            if end < 0:
                return None
            head = self._got[:end].lower()
            assert head[9:12] in (b"200", b"304"), head
            self.closes = head.startswith(b"http/1.0") or b"\r\nconnection: close" in head
            _, found, rest = head.partition(b"content-length:")
            self._wanted = end + 4 + (int(rest.split(b"\r\n", 1)[0]) if found else 0)
        return time.perf_counter() - self._begun if len(self._got) >= self._wanted else None


def load(port: int, data: bytes, connections: int, seconds: float = MEASURED_S) -> Load:
    """Keep this many connections busy for so long."""
    latencies: list[float] = []
    lines: dict[int, Line] = {}

    def connect() -> None:
        line = Line(port, data, blocking=False)
        lines[line.socket.fileno()] = line
        ready.register(line.socket, select.EPOLLOUT)

    with select.epoll() as ready:
        for _ in range(connections):
            connect()
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds:
            for number, event in ready.poll(0.1):
                line = lines[number]
                if event & select.EPOLLOUT:  # connected
                    line.ask()
                    ready.modify(line.socket, select.EPOLLIN)
                    continue
                took = line.answered()
                if took is None:
                    continue
                latencies.append(took)
                if line.closes:
                    line.socket.close()
                    connect()
                else:
                    line.ask()
        spent = time.perf_counter() - begun
    for line in lines.values():
        line.socket.close()
    latencies.sort()
    return Load(len(latencies) / spent, latencies[int(len(latencies) * 0.99)], len(latencies))


def compared(
    reference: tuple[int, int], mine: tuple[int, int], kind: str, connections: int
) -> tuple[Load, Load, float]:
    """The best of some rounds of each, in turns; and the CPU time of ours for a request, in that of the reference."""
    found: dict[tuple[int, int], list[Load]] = {reference: [], mine: []}
    spent_s = dict.fromkeys(found, 0.0)
    for port, _ in found:
        load(port, request(kind, port), connections, WARM_S)
    for _ in range(ROUNDS):
        for (port, pid), loads in found.items():
            before_s = cpu_s(pid)
            loads.append(load(port, request(kind, port), connections))
            spent_s[port, pid] += cpu_s(pid) - before_s
    each = [spent_s[one] / sum([load.requests for load in found[one]]) for one in (mine, reference)]
    return max(found[reference]), max(found[mine]), each[0] / each[1]


def cpu_s(pid: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crowd(port: int) -> int:
    """How many of a thousand that come at once are not answered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CROWD)), hard))
    missed = 0
    with ExitStack() as stack:
        lines = []
        for _ in range(CROWD):
            line = Line(port, request("get", port))
            stack.callback(line.socket.close)
            line.socket.settimeout(10.0)
            lines.append(line)
        for line in lines:
            line.ask()
        for line in lines:
            try:
                while line.answered() is None:
                    pass
            except (OSError, AssertionError):
                missed += 1
    return missed


def resident_mb(pid: int) -> float:
    """The memory of a process, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1_024


async def call_cost(home: Path) -> float:
    """CPU microseconds of one call without HTTP, its record included."""
    from jaato.runtime.session_options import SessionOptions
    from jaato.server.registry.application import open_registry
    from jaato.server.registry.requests import PendingRequest, Principal, Request
    from jaato.server.registry.routes import ToolRegistry

    async def some(door: ToolRegistry) -> float:
        begun = time.process_time()
        for number in range(CALLS):
            pending = door.dispatch(Request(b"POST", b"/v1/tools/echo:invoke", []), Principal())
            assert isinstance(pending, PendingRequest)
            assert (await door.work(pending, BODY)).status == 200
            if number % 16 == 0:
                await asyncio.sleep(0)
        return (time.process_time() - begun) / CALLS * 1e6

    door = open_registry(SessionOptions(workspace=home, state_dir=home / "state"), ["core"])
    try:
        return min([await some(door) for _ in range(5)])
    finally:
        await door.callers.close()


def tag_of(port: int) -> str:
    """The entity tag of the list."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/v1/tools")
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.headers["etag"]


def rows() -> Iterator[Row]:
    """The figures of the registry."""
    with tempfile.TemporaryDirectory(prefix="jaato-") as folder:
        home = Path(folder)
        with both(home, 3) as (reference, mine):
            for kind in KINDS:
                for connections in CONNECTIONS:
                    theirs, ours, cost = compared(reference, mine, kind, connections)
                    name = f"registry: {kind}, {connections} connections ({ours.rate:,.0f}/s)"
                    yield Row(
                        name, theirs.rate / ours.rate, "times", None, f"{AGAINST}, its time per request"
                    )
                    name = f"registry: {kind}, {connections} connections, CPU"
                    yield Row(
                        name,
                        cost,
                        "times",
                        CALL[connections] if kind == "invoke" else PAGE,
                        f"{AGAINST}, its CPU time",
                    )
                    if connections == 64:
                        yield Row(f"registry: {kind}, p99", ours.p99_s * 1e3, "ms", 100, "64 connections")
            (home / "inside").mkdir()
            cost = asyncio.run(call_cost(home / "inside"))
            yield Row("registry: a call without HTTP", cost, "µs", CALL_US, "CPU time, its record included")
            yield Row("registry: connections refused", crowd(mine[0]), "", 0, f"{CROWD:,} that come at once")
        with both(home, TOOLS) as ((reference, _), (mine, pid)):
            theirs = max(load(reference, request("list", reference), 16) for _ in range(ROUNDS))
            whole = max(load(mine, request("list", mine), 16) for _ in range(ROUNDS))
            known = request("list", mine, f"if-none-match: {tag_of(mine)}")
            same = max(load(mine, known, 16) for _ in range(ROUNDS))
            name = f"registry: list of {TOOLS:,} tools"
            yield Row(f"{name} ({whole.rate:,.0f}/s)", theirs.rate / whole.rate, "times", 1 / 3, AGAINST)
            yield Row(
                f"{name}, known ({same.rate:,.0f}/s)", theirs.rate / same.rate, "times", 1 / 20, AGAINST
            )
            yield Row(f"registry: memory with {TOOLS:,} tools", resident_mb(pid), "MB", 80, "")
