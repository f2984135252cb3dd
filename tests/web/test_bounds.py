"""Answers that are too long, too slow, too deep or no answers."""

from __future__ import annotations

import gzip
import socket
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.processes import children
from tests.web.fetching import local, plain
from tests.web.server import Answer, ask, serving, text

from jaato.errors import ToolError, ToolTimeout


def test_more_than_is_wanted_is_not_read(tmp_path: Path) -> None:
    """An endless answer ends at the bound, and says so."""
    stopped = threading.Event()

    def endless(out: Any) -> None:
        try:
            while True:
                out.write(b"x" * 65_536)
        except OSError:
            stopped.set()
            raise

    with serving(index=Answer(200, {"Content-Type": "text/plain"}, endless)) as site:
        found = ask(local(tmp_path), "fetch_url", url=site.url, max_bytes=100_000, max_chars=200_000)
        assert found.structured["chars"] == 100_000
        assert "end is missing" in text(found)
        assert stopped.wait(60)


def bomb(levels: int) -> bytes:
    data = b"0" * 30_000_000
    for _ in range(levels):
        data = gzip.compress(data, 1)
    return data


def test_a_packed_answer_unfolds_within_its_bound(tmp_path: Path) -> None:
    """Once or several times packed, it never becomes more than was asked for; broken packing is an error."""
    short = b"short " * 10
    with serving(
        a=plain(bomb(1), Content_Encoding="gzip"),
        b=plain(bomb(2), Content_Encoding="gzip, gzip"),
        c=plain(gzip.compress(short) + gzip.compress(short), Content_Encoding="x-gzip"),
        d=plain(zlib.compress(short), Content_Encoding="deflate"),
        e=plain(zlib.compress(short, wbits=-15), Content_Encoding="deflate"),
        f=plain(b"no gzip", Content_Encoding="gzip"),
        g=plain(short, Content_Encoding="br"),
        h=plain(short, Content_Encoding="gzip, gzip, gzip, gzip"),
    ) as site:
        plugin = local(tmp_path)
        for path in "ab":
            found = ask(plugin, "fetch_url", url=f"{site.url}/{path}", max_bytes=50_000, max_chars=200_000)
            assert found.structured["chars"] <= 50_000
            assert "end is missing" in text(found)
        assert text(ask(plugin, "fetch_url", url=f"{site.url}/c")).endswith((short * 2).decode())
        for path in "de":
            assert text(ask(plugin, "fetch_url", url=f"{site.url}/{path}")).endswith(short.decode())
        for path in "fgh":
            with pytest.raises(ToolError, match=r"unpacked|coded"):
                ask(plugin, "fetch_url", url=f"{site.url}/{path}")


def raw_server(conversation: Callable[[socket.socket], None]) -> tuple[int, threading.Thread]:
    """A server that takes one connection and does as it likes with it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        with listener, listener.accept()[0] as connection:
            try:
                conversation(connection)
            except OSError:
                return

    thread = threading.Thread(target=work)
    thread.start()
    return listener.getsockname()[1], thread


def drip(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    pause = threading.Event()
    while not pause.wait(0.02):
        connection.sendall(b"x")


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


@pytest.mark.parametrize("conversation", [drip, silent])
def test_the_time_bounds_the_whole_answer(
    tmp_path: Path, conversation: Callable[[socket.socket], None]
) -> None:
    """A server that says nothing, or one letter after the other, is left when the time is over."""
    port, thread = raw_server(conversation)
    with pytest.raises(ToolTimeout, match="allow more time"):
        ask(local(tmp_path), "fetch_url", url=f"http://127.0.0.1:{port}/", timeout_s=0.3)
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000,
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", b"HTTP/1.1 999999 X\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http_is_an_error(tmp_path: Path, answer: bytes) -> None:
    """Broken answers are said to be that."""

    def conversation(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(answer)

    port, thread = raw_server(conversation)
    with pytest.raises(ToolError, match=r"HTTP|reached"):
        ask(local(tmp_path), "fetch_url", url=f"http://127.0.0.1:{port}/", timeout_s=60)
    thread.join(60)


def test_a_page_that_is_too_deep_ends_its_reader() -> None:
    """Markup that would take minutes is stopped with its reader; the caller learns what to do, and no process stays."""
    from jaato.plugins.web.page import read_in_sandbox
    from jaato.tools.processes.sandbox_process import WorkFailed

    before = children(zombies=True)
    options = {"base": "http://a/", "selector": None, "plain": False, "most_chars": 1000}
    with pytest.raises(WorkFailed, match="selector or fewer max_bytes"):
        anyio.run(lambda: read_in_sandbox("html", b"<div>" * 300_000, 0.3, **options))
    assert children(zombies=True) <= before


def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    """An unknown name and a port where nothing listens are told apart."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ToolError, match="cannot be reached"):
        ask(local(tmp_path), "fetch_url", url=f"http://127.0.0.1:{port}/")
    with pytest.raises(ToolError, match="not known"):
        ask(local(tmp_path), "fetch_url", url="http://nowhere.example/")
