"""Requests by the thousand without a token, or with wrong ones, from the address of clients that have the right one."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.registry.test_keys import keyed, serve
from tests.security.auth_server import Keep, answer, status

from jaato.client.websocket import Closed
from jaato.server.auth.gate import MAX_ADDRESSES, Throttle
from jaato.server.http.asgi import Refused
from jaato.server.registry.keys import add_key
from jaato.testing.arp.peer import Served, read

ATTACKERS = 48
"""Threads; each waits for its answers, some of which are delayed."""
MANY, FEWER = 3_000, 1_500
SOON_S = 5.0
"""How long a good client's request may take while the attack goes on, on a machine that does both."""
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
)


@dataclass
class Attack:
    """Requests of strangers, by several threads at once; what they were answered."""

    ask: Callable[[int], int]
    count: int
    said: Counter[int] = field(default_factory=Counter)

    @contextmanager
    def under_way(self) -> Iterator[Attack]:
        """Attack while the body runs, and until all requests are made."""
        numbers = iter(range(self.count))
        lock = threading.Lock()

        def strike() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                try:
                    found = self.ask(number)
                except OSError:
                    found = 0
                with lock:
                    self.said[found] += 1

        threads = [threading.Thread(target=strike) for _ in range(ATTACKERS)]
        for one in threads:
            one.start()
        try:
            yield self
        finally:
            for one in threads:
                one.join()

    @property
    def begun(self) -> bool:
        """Whether it has made enough requests to matter."""
        return self.said.total() >= 150


def wrong_ones(keep: Keep, number: int) -> int:
    """One request without a token, or with a wrong one, in a header or in `hello`."""
    if number % 10 == 9:
        with keep.socket() as line:
            line.send({"type": "hello", "protocol": 1, "token": "wrong" if number % 20 == 9 else ""})
            said = line.receive()
            return said.code if isinstance(said, Closed) else 200
    token = None if number % 2 else f"wrong-{number}"
    path = ("/health", "/mcp", "/v1/tools", "/v1/connect")[number % 4]
    return status(
        keep.ask(
            keep.upgrade(path=path, token=token or "wrong")
            if path == "/v1/connect"
            else keep.head(path, token=token)
        )
    )


def good_client(keep: Keep, token: str) -> float:
    """Everything a client with a right token may do, from the same address; how long the slowest took."""
    slowest = 0.0

    def timed(work: Callable[[], object]) -> None:
        nonlocal slowest
        began = time.monotonic()
        work()
        slowest = max(slowest, time.monotonic() - began)

    def http() -> None:
        assert status(keep.ask(keep.head(token=token))) == 200

    def mcp() -> None:
        more = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
        head = keep.head(
            "/mcp",
            *more,
            "Connection: close",
            f"Content-Length: {len(INITIALIZE)}",
            method="POST",
            token=token,
        )
        assert status(keep.ask(head + INITIALIZE.encode())) == 200

    def by_header() -> None:
        with keep.socket(token) as line:
            assert line.hello()["role"] == "owner"

    def by_hello() -> None:
        with keep.socket() as line:
            assert line.hello(token=token)["role"] == "owner"
            assert "result" in line.command("session.list")

    for work in (http, mcp, by_header, by_hello):
        timed(work)
    return slowest


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keep]:
    """A server with every door."""
    root = tmp_path_factory.mktemp("throttle")
    (root / "mcp").mkdir()
    keep = Keep(root, "--web-socket", ":0", "--mcp-workspace", str(root / "mcp"))
    yield keep
    assert keep.stop()[0] == 0


def test_strangers_lock_nobody_out(served: Keep) -> None:
    """While thousands of requests with wrong tokens and none come from its address, a client with the right one does all it may;
    who presents none is told so each time, and never to come later."""
    token = served.tokens["owner"]
    good_client(served, token)  # what is loaded when it is first used, is
    attack = Attack(lambda number: wrong_ones(served, number), MANY)
    with attack.under_way():
        while not attack.begun:
            time.sleep(0.01)
        slowest, rounds = 0.0, 0
        while attack.said.total() < MANY - ATTACKERS * 2 and rounds < 200:
            slowest, rounds = max(slowest, good_client(served, token)), rounds + 1
            assert status(served.ask(served.head())) == 401
    assert slowest < SOON_S
    assert rounds >= 4, "the attack was over too soon to say anything"
    assert set(attack.said) <= {401, 429, 4401}, attack.said
    assert attack.said[429] > 100, "guessing is slowed down"
    good_client(served, token)


def test_a_refusal_is_over_as_soon_as_the_attempts_are(served: Keep) -> None:
    """After thousands of wrong tokens an address with another wrong one is told so within a second or two, not after a minute."""
    with Attack(lambda _: status(served.ask(served.head(token="wrong"), 77)), 2_000).under_way() as attack:
        pass
    assert attack.said[429] > 1_000
    until = time.monotonic() + 30  # half of the minute after which an address is forgotten
    while (found := status(served.ask(served.head(token="expired"), 77))) != 401:
        assert found == 429
        assert time.monotonic() < until
        time.sleep(0.2)


def test_the_unix_socket_bears_the_same(served: Keep) -> None:
    """Requests with wrong tokens at the Unix socket, whose clients need none, cost its other clients nothing."""

    def ask(number: int) -> int:
        with closing(socket.socket(socket.AF_UNIX)) as line:
            line.settimeout(60)
            line.connect(str(served.path))
            line.sendall(
                served.head("/health", token=f"wrong-{number}" if number % 2 else None, connection="close")
            )
            return status(answer(line))

    attack = Attack(ask, FEWER)
    with attack.under_way():
        while attack.said.total() < FEWER - ATTACKERS * 2:
            began = time.monotonic()
            with served.client(unix=True) as line:
                assert "result" in line.command("session.list")
            assert time.monotonic() - began < SOON_S
    assert set(attack.said) == {200}


def test_a_registry_with_keys_bears_the_same(tmp_path: Path) -> None:
    """At the registry's own address, too, whoever has a key lists and calls while strangers from its address try others."""
    key = add_key(tmp_path / "state", "right", ["tools:read", "tools:invoke"])

    def body(at: Served) -> None:
        good = Served(at.url, token=key)
        bad = [Served(at.url), *(Served(at.url, token=f"jrk_{n}") for n in range(3))]

        def ask(number: int) -> int:
            one = bad[number % len(bad)]
            with closing(one.line()) as line:
                line.sendall(one.head("GET", "/v1/tools"))
                return read(line).status

        attack = Attack(ask, FEWER)
        with attack.under_way():
            rounds = 0
            while attack.said.total() < FEWER - ATTACKERS * 2 and rounds < 200:
                began = time.monotonic()
                assert good.send("GET", "/v1/tools").status == 200
                assert good.invoke("echo", {"args": {"text": "x"}}).status == 200
                assert at.send("GET", "/v1/tools").status == 401
                assert time.monotonic() - began < SOON_S
                rounds += 1
        assert rounds >= 4, "the attack was over too soon to say anything"
        assert set(attack.said) == {401, 429}
        assert attack.said[429] > 100

    serve(tmp_path, keyed(tmp_path / "state"), body)


def test_what_is_remembered_of_strangers_is_bounded() -> None:
    """However many addresses there are, the throttle remembers ten thousand; the networks of IPv6 count as one each."""
    throttle = Throttle()
    for number in range(MAX_ADDRESSES + 2_000):
        throttle.check(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        with suppress(Refused):
            throttle.check(f"2001:db8::{number:x}")
    assert len(throttle._buckets) <= MAX_ADDRESSES
