"""Browsers are paired by a one-time code, and authenticated by two halves of a token; the page is served without one."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.security.auth_server import Keep, status

from jaato.client.websocket import Closed
from jaato.server.auth.pairing import CODE_S, MAX_CODES, Pairings
from jaato.server.auth.tokens import tokens_file
from jaato.server.web.static_files import BUILT, POLICY, load_assets

COOKIE = re.compile(rb"set-cookie: (__Host-jaato-\d+)=([\w-]+); ([^\r]*)")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keep]:
    """A server on the network."""
    keep = Keep(tmp_path_factory.mktemp("keep"), "--web-socket", "127.0.0.1:0")
    yield keep
    keep.stop()


@pytest.fixture(scope="module")
def who() -> Iterator[int]:
    """An address for each that fails, so that none is told to come later."""
    return iter(range(10, 60_000))


def run_web(keep: Keep, *flags: str) -> subprocess.CompletedProcess[str]:
    """`jaato web` for this server."""
    return keep.run("web", "--ipc-socket", str(keep.path), *flags, cwd=Path.cwd())


def link_of(keep: Keep, *flags: str) -> tuple[str, str]:
    """A new link: the address of the page, and the code."""
    made = run_web(keep, "--no-open", *flags)
    assert made.returncode == 0, made.stderr
    return split_link(made.stdout)


def split_link(link: str) -> tuple[str, str]:
    """The address of the page and the code of a link, which ends with the directory of its command."""
    page, _, code = link.strip().partition("#pair=")
    code, _, directory = code.partition("&in=")
    assert unquote(directory) == os.getcwd()
    return page, code


def origin(keep: Keep) -> str:
    """The origin of the page."""
    return f"http://127.0.0.1:{keep.port}"


def exchange(keep: Keep, code: str, who: int = 1, **changed: str | None) -> bytes:
    """What the server answers to a code."""
    named = {"Authorization": f"Pairing {code}", "Origin": origin(keep), "Content-Length": "0", **changed}
    return keep.ask(keep.head("/pair", method="POST", **named), who)


def paired(keep: Keep, *flags: str) -> tuple[str, str]:
    """The cookie and the key of a newly paired browser."""
    said = exchange(keep, link_of(keep, *flags)[1])
    assert status(said) == 200, said
    found = COOKIE.search(said)
    assert found is not None, said
    return f"{found[1].decode()}={found[2].decode()}", json.loads(said.partition(b"\r\n\r\n")[2])["key"]


def test_a_link_from_a_directory_that_is_gone(served: Keep, tmp_path: Path) -> None:
    """It pairs as any other, and suggests no directory."""
    python, *module = served.command()[:3]
    words = [python, "-P", *module, "web", "--ipc-socket", str(served.path), "--no-open"]
    script = ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *words]
    gone = tmp_path / "gone"
    gone.mkdir()
    made = subprocess.run(script, cwd=gone, env=served.env, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    page, _, code = made.stdout.strip().partition("#pair=")
    assert page == f"{origin(served)}/"
    assert status(exchange(served, code)) == 200


def test_the_page_is_served_with_its_headers(served: Keep) -> None:
    """Start and assets, without a token, compressed or not; the start is always checked again, an asset never."""
    assert "/" in load_assets()
    assert "/favicon.svg" in load_assets()
    for path in load_assets():
        said = served.ask(served.head(path))
        head, _, body = said.partition(b"\r\n\r\n")
        assert status(said) == 200
        assert f"content-security-policy: {POLICY}".encode() in head
        for line in (
            b"x-content-type-options: nosniff",
            b"referrer-policy: no-referrer",
            b"x-frame-options: DENY",
        ):
            assert line in head
        lasting = b"cache-control: public, max-age=31536000, immutable"
        assert (lasting if path.startswith("/assets/") else b"cache-control: no-cache") in head
        packed = served.ask(served.head(path, Accept_Encoding="br, gzip"))
        assert (
            gzip.decompress(packed.partition(b"\r\n\r\n")[2])
            == body
            == (BUILT / (path[1:] or "index.html")).read_bytes()
        )
        tag = re.search(rb"etag: (\S+)", head)
        assert tag is not None
        again = served.ask(served.head(path, Connection="close", If_None_Match=tag[1].decode()))
        assert (status(again), again.partition(b"\r\n\r\n")[2]) == (304, b"")


def test_the_page_names_nothing_outside() -> None:
    """Its start loads hashed files of its own and has no inline script or style."""
    text = (BUILT / "index.html").read_text()
    assert re.findall(r"(?:src|href)=\"([^\"]*)\"", text)
    assert all(
        link == "/favicon.svg" or re.fullmatch(r"/assets/[\w.-]+-[\w-]{8}\.(js|css)", link)
        for link in re.findall(r"(?:src|href)=\"([^\"]*)\"", text)
    )
    assert not re.search(r"<style|style=|<script(?![^>]*\bsrc=)|\son\w+=", text)


@pytest.mark.parametrize(
    "path",
    ["/index.html", "/assets/", "/assets/nothing.js", "/assets/..%2f..%2findex.html", "/built/index.html"],
)
def test_nothing_else_is_served_without_a_token(served: Keep, who: Iterator[int], path: str) -> None:
    """Only the files that were built, each by its own path."""
    assert status(served.ask(served.head(path), next(who))) == 401
    assert status(served.ask(served.head(path, token=served.tokens["owner"]))) == 404


def test_the_page_checks_host_and_origin(served: Keep) -> None:
    """A rebound name and a foreign origin are refused before anything is read."""
    for host in ("evil.example", f"127.0.0.1.evil.example:{served.port}", "localhost:1"):
        assert status(served.ask(served.head("/", Host=host))) == 421
    for foreign in (
        "http://evil.example",
        "null",
        f"http://127.0.0.1:{served.port}.evil.example",
        "http://127.0.0.1:1",
    ):
        assert status(served.ask(served.head("/", Origin=foreign))) == 403


def test_a_link_pairs_one_browser_once(served: Keep, who: Iterator[int]) -> None:
    """The code is in the fragment; its exchange sets a cookie that only the server reads, and the code is used up."""
    page, code = link_of(served)
    assert page == f"http://127.0.0.1:{served.port}/"
    said = exchange(served, code)
    assert status(said) == 200
    found = COOKIE.search(said)
    assert found is not None
    assert found[1].decode() == f"__Host-jaato-{served.port}"
    assert found[3] == b"Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=2592000"
    assert b"cache-control: no-store" in said
    key = json.loads(said.partition(b"\r\n\r\n")[2])["key"]
    assert found[2].decode() not in key
    again = exchange(served, code, next(who))
    assert status(again) == 401
    assert b"jaato web" in again


@pytest.mark.spec("S3", "Server-First Architecture", "S3.server.12")
def test_both_halves_together_admit(served: Keep, who: Iterator[int]) -> None:
    """The cookie alone, the key alone, those of two browsers, or without the page's origin: none admits."""
    cookie, key = paired(served)
    other_cookie, other_key = paired(served, "--role", "viewer")
    right = origin(served)
    for jar, origin_, given in (
        (cookie, right, ""),
        (None, right, key),
        (other_cookie, right, key),
        (cookie, right, other_key),
        (cookie, None, key),
        (f"{cookie}; {cookie}", right, key),
        (cookie.replace("jaato-", "jaato-1"), right, key),
        (cookie[:-1], right, key),
        (cookie + "x", right, key),
    ):
        with served.socket(who=next(who), Cookie=jar, Origin=origin_) as line:
            line.send({"type": "hello", "protocol": 1, "token": given})
            said = line.receive()
            assert isinstance(said, Closed), (jar, given)
            assert said.code == 4401
    for jar, given, role in ((cookie, key, "owner"), (f"a=b; {other_cookie}; c=d", other_key, "viewer")):
        with served.socket(Cookie=jar, Origin=right) as line:
            assert line.hello(token=given)["role"] == role
    assert status(served.ask(served.upgrade(Cookie=cookie, Origin="http://evil.example"), next(who))) == 403
    assert status(served.ask(served.head("/health", Cookie=cookie, Origin=right), next(who))) == 401


def test_a_paired_browser_survives_the_server(served: Keep) -> None:
    """Killed and started again at the same address, the server knows it; `jaato tokens` shows and removes it."""
    cookie, key = paired(served)
    served.process.kill()
    served.process.communicate()
    served.flags = (*served.flags[:-1], f"127.0.0.1:{served.port}")
    served.start()
    with served.socket(Cookie=cookie, Origin=origin(served)) as line:
        assert line.hello(token=key)["role"] == "owner"
        names = [
            entry.name for entry in tokens_file(served.state).read() if entry.name.startswith("browser-")
        ]
        for name in names:
            assert served.run("tokens", "remove", name).returncode == 0
        said = line.receive()
        assert isinstance(said, Closed)
        assert said.code == 4401


@pytest.mark.parametrize("wrong", ["GET", "no origin", "foreign", "bearer", "nothing"])
def test_an_exchange_that_is_none(served: Keep, who: Iterator[int], wrong: str) -> None:
    """Another method, without or with another origin, or with another credential: the code is not used up."""
    _, code = link_of(served)
    changes: dict[str, dict[str, str | None]] = {
        "no origin": {"Origin": None},
        "foreign": {"Origin": "http://evil.example"},
        "bearer": {"Authorization": f"Bearer {served.tokens['owner']}"},
        "nothing": {"Authorization": None},
    }
    if wrong == "GET":
        said = served.ask(served.head("/pair", Authorization=f"Pairing {code}"), next(who))
    else:
        said = exchange(served, code, next(who), **changes[wrong])
    assert status(said) == (401 if wrong in ("GET", "nothing", "bearer") else 403), said
    assert b"set-cookie" not in said
    assert status(exchange(served, code)) == 200


def test_wrong_codes_are_rate_limited(served: Keep) -> None:
    """After a hundred wrong codes of one address at once, there is a 429; another address is not affected."""
    seen = {status(exchange(served, "x" * 43, 7)) for _ in range(3)}
    assert seen == {401}
    pipelined = served.head(
        "/pair", "Content-Length: 0", method="POST", Authorization="Pairing wrong", Origin=origin(served)
    )
    lines = [served.dial(8) for _ in range(130)]
    for line in lines:
        line.sendall(pipelined)
    answers = [line.recv(100) for line in lines]
    for line in lines:
        line.close()
    assert any(b" 429 " in one for one in answers)
    assert status(exchange(served, link_of(served)[1], 9)) == 200


def test_codes_are_few_and_short_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    """A code is valid once, until its time is over, or until too many newer ones were made."""
    pairings = Pairings()
    code = pairings.create("viewer")
    assert pairings.redeem(code[:-1]) is None
    assert pairings.redeem("") is None
    assert pairings.redeem(code) == "viewer"
    assert pairings.redeem(code) is None
    first = pairings.create("owner")
    for _ in range(MAX_CODES):
        last = pairings.create("owner")
    assert pairings.redeem(first) is None
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + CODE_S + 1)
    assert pairings.redeem(last) is None


def test_links_are_for_the_owner_on_this_machine(served: Keep) -> None:
    """Over the network no token makes one, and a browser paired as a viewer does not get more."""
    for token in ("owner", "approver", "viewer"):
        with served.socket(served.tokens[token]) as line:
            line.hello()
            line.send({"type": "pairing.create", "id": "1", "role": "owner"})
            reply = line.receive()
            assert isinstance(reply, dict)
            assert reply["error"]["code"] == "not_allowed"


def test_a_server_opens_a_port_for_the_page_only_when_asked(tmp_path: Path) -> None:
    """Without `--web-socket` nothing listens on the network until `jaato web`; then loopback does, and the status says so."""
    keep = Keep(tmp_path)
    try:
        assert "://" not in keep.said
        page, code = link_of(keep)
        keep.port = int(page.rstrip("/").rpartition(":")[2])
        assert page.startswith("http://127.0.0.1:")
        assert status(exchange(keep, code)) == 200
        assert link_of(keep)[0] == page
        told = keep.run("serve", "--status", "--ipc-socket", str(keep.path)).stdout
        assert f"ws://127.0.0.1:{keep.port}" in told
    finally:
        keep.stop()


def test_the_browser_is_given_a_private_file(served: Keep, tmp_path: Path) -> None:
    """The link is on no command line, where other users could read it: the browser gets the path of a file."""
    seen = tmp_path / "seen"
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\nprintf '%s' \"$1\" > {seen}\n")
    program.chmod(0o700)
    served.env["BROWSER"] = f"{program} %s"
    made = run_web(served)
    del served.env["BROWSER"]
    assert made.returncode == 0, made.stderr
    assert "pair=" not in made.stdout + made.stderr + seen.read_text()
    file = Path(seen.read_text().removeprefix("file://"))
    assert file.stat().st_mode & 0o077 == 0
    found = re.search(r"url=(http://[^\"]*)#pair=([\w-]+)&amp;in=[^\"]+\"", file.read_text())
    assert found is not None
    assert status(exchange(served, found[2])) == 200


def test_the_server_is_started_if_it_is_not_running(tmp_path: Path) -> None:
    """`jaato web` alone is enough: the server of this user starts, listens on loopback only, and its link pairs."""
    keep = Keep(tmp_path)
    keep.stop()
    keep.env["XDG_RUNTIME_DIR"] = str(tmp_path)

    def run(*words: str) -> str:
        made = keep.run(*words, cwd=Path.cwd())
        assert made.returncode == 0, made.stderr
        return made.stdout

    try:
        page, code = split_link(run("web", "--no-open"))
        keep.port = int(page.rstrip("/").rpartition(":")[2])
        assert status(exchange(keep, code)) == 200
        assert run("serve", "--status").splitlines()[0].endswith(f" and ws://127.0.0.1:{keep.port}")
        assert run("web", "--no-open").startswith(page)
    finally:
        run("serve", "--stop")
