"""Every route over the network, with every kind of token, name and origin there is."""

from __future__ import annotations

import hmac
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.security.auth_server import Keep, answer, status

from jaato.client.websocket import Closed
from jaato.errors import ConfigError
from jaato.server.auth.tokens import OWNER, SingleToken, Tokens, add_token, digest_of

ROUTES = (
    "/health",
    "/metrics",
    "/mcp",
    "/v1/models",
    "/v1/chat/completions",
    "/v1/connect",
    "/",
    "/nothing",
    "/../etc/passwd",
    "/health/",
)
WRONG = {
    "none": None,
    "empty": "Bearer",
    "blank": "Bearer  ",
    "wrong": "Bearer wrong",
    "expired": "Bearer {expired}",
    "removed": "Bearer {removed}",
    "another user's": "Bearer {another user's}",
    "longer": "Bearer {owner}x",
    "beginning": "Bearer {part}",
    "other case": "Bearer {upper}",
    "basic": "Basic {owner}",
    "bare": "{owner}",
    "twice": "Bearer {owner}\r\nAuthorization: Bearer {owner}",
    "two": "Bearer {owner}, Bearer {owner}",
    "a hash": "Bearer {hash}",
    "bytes": "Bearer \xff\xfe",
    "long": "Bearer " + "x" * 20_000,
}


def given(keep: Keep, text: str | None) -> str | None:
    """The header with what it stands for filled in."""
    if text is None:
        return None
    owner = keep.tokens["owner"]
    return text.format(**keep.tokens, part=owner[:-1], upper=owner.swapcase(), hash=digest_of(owner))


@pytest.fixture(scope="module")
def who() -> Iterator[int]:
    """An address for each that fails, so that none is told to come later."""
    return iter(range(10, 60_000))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", WRONG)
def test_no_route_answers_without_the_token(keep: Keep, who: Iterator[int], route: str, kind: str) -> None:
    """401 for every route and method, known or not, before a broken body is looked at; and not a word of what is here.
    Only the page itself can be read without one."""
    for method, body in (("GET", b""), ("POST", b'{"broken'))[route == "/" :]:
        head = keep.head(
            route, f"Content-Length: {len(body)}", method=method, Authorization=given(keep, WRONG[kind])
        )
        said = keep.ask(head + body, next(who))
        assert status(said) == 401, said
        assert b"www-authenticate: Bearer" in said
        assert b"access-control" not in said.lower()
        assert b"uptime" not in said
        assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["message"]


@pytest.mark.parametrize("route", ["/v1/connect", "/", "/mcp", "/health"])
@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "none"])
def test_no_websocket_opens_with_a_wrong_token(keep: Keep, who: Iterator[int], route: str, kind: str) -> None:
    """A wrong token in the header ends the handshake with 401; it is not asked for again in hello."""
    said = keep.ask(keep.upgrade(path=route, Authorization=given(keep, WRONG[kind])), next(who))
    assert status(said) == (400 if kind == "long" else 401), said


@pytest.mark.parametrize("route", ["/", "/mcp", "/health", "/metrics", "/v1/connect/", "/v1/CONNECT"])
def test_only_the_protocol_s_path_waits_for_hello(keep: Keep, who: Iterator[int], route: str) -> None:
    """Elsewhere a WebSocket without a token is refused at once."""
    assert status(keep.ask(keep.upgrade(path=route), next(who))) == 401


@pytest.mark.parametrize(
    "kind",
    ["none", "empty", "wrong", "expired", "removed", "another user's", "longer", "beginning", "hash", "long"],
)
def test_no_hello_is_welcomed_with_a_wrong_token(keep: Keep, who: Iterator[int], kind: str) -> None:
    """A hello without a token of this server is answered with close code 4401 and nothing else."""
    owner = keep.tokens["owner"]
    made = {"none": None, "empty": "", "wrong": "wrong", "longer": owner + "x", "beginning": owner[:-1]}
    made |= {"hash": digest_of(owner), "long": "x" * 3_900}
    token = made[kind] if kind in made else keep.tokens[kind]
    with keep.socket(who=next(who)) as line:
        line.send({"type": "hello", "protocol": 1, **({} if token is None else {"token": token})})
        said = line.receive()
        assert isinstance(said, Closed)
        assert said.code == 4401


@pytest.mark.parametrize("kind", ["owner", "viewer", "approver"])
def test_a_right_token_opens_every_door(keep: Keep, kind: str) -> None:
    """In the header or in hello, it lets its bearer in with the role it was given."""
    token = keep.tokens[kind]
    assert status(keep.ask(keep.head("/health", token=token))) == 200
    assert status(keep.ask(keep.head("/metrics", token=token))) == 200
    assert status(keep.ask(keep.head("/nothing", token=token))) == 404
    with keep.socket(token) as line:
        assert line.hello()["role"] == kind
    with keep.socket() as line:
        assert line.hello(token=token)["role"] == kind


@pytest.mark.parametrize(
    "place",
    [
        "/health?token={owner}",
        "/health?access_token={owner}",
        "/health?authorization=Bearer%20{owner}",
        "/{owner}/health",
        "http://x:{owner}@127.0.0.1:{port}/health",
        "/health#{owner}",
    ],
)
def test_a_token_in_an_address_counts_for_nothing(keep: Keep, who: Iterator[int], place: str) -> None:
    """Addresses are written down by everybody on the way, so no token is taken from one."""
    said = keep.ask(keep.head(place.format(port=keep.port, **keep.tokens)), next(who))
    assert status(said) in (400, 401, 421)


@pytest.mark.parametrize(
    "line",
    [
        "Sec-WebSocket-Protocol: {owner}",
        "Sec-WebSocket-Protocol: bearer, {owner}",
        "Sec-WebSocket-Protocol: authorization.bearer.{owner}",
        "Cookie: token={owner}",
        "X-Api-Key: {owner}",
        "Proxy-Authorization: Bearer {owner}",
        "X-Forwarded-Authorization: Bearer {owner}",
        "X-Forwarded-For: 127.0.0.1",
        "Forwarded: for=127.0.0.1;host=localhost",
    ],
)
def test_a_token_elsewhere_counts_for_nothing(keep: Keep, who: Iterator[int], line: str) -> None:
    """Only `Authorization` and hello are places of a token; no header makes a stranger local."""
    row = line.format(**keep.tokens)
    assert status(keep.ask(keep.head("/health", row), next(who))) == 401
    raw = keep.dial(next(who))
    raw.sendall(keep.upgrade(row))
    said = raw.recv(4096)
    raw.close()
    assert b"sec-websocket-protocol" not in said.lower()


def test_no_answer_speaks_of_cors(keep: Keep, who: Iterator[int]) -> None:
    """A preflight, even from a page that may call, is answered as what it is: a request without a token."""
    for route in ROUTES:
        row = "Access-Control-Request-Method: POST"
        said = keep.ask(keep.head(route, row, method="OPTIONS", Origin="https://editor.example"), next(who))
        assert status(said) == 401
        assert b"access-control" not in said.lower()


def test_the_body_of_a_stranger_is_not_waited_for(keep: Keep, who: Iterator[int]) -> None:
    """100 MB that are announced without a token are refused before the first of them comes."""
    head = keep.head("/mcp", "Content-Length: 100000000", method="POST")
    assert status(keep.ask(head, next(who))) == 401
    head = keep.head("/mcp", "Transfer-Encoding: chunked", method="POST")
    assert status(keep.ask(head, next(who))) == 401


def test_guessing_is_slowed_down_and_a_right_token_is_not(tmp_path: Path) -> None:
    """An address that fails again and again is told to come later; with a right token it comes in, by header or hello."""
    keep = Keep(tmp_path, "--web-socket", ":0")
    try:
        seen = set()
        for _ in range(9):
            seen.add(status(keep.ask(keep.head(token="wrong"))))
        assert seen == {401}
        lines = [keep.dial() for _ in range(120)]
        for one in lines:
            one.sendall(keep.head(token="wrong"))
        answers = [answer(one) for one in lines]
        for one in lines:
            one.close()
        assert {status(said) for said in answers} == {401, 429}
        assert all(b"retry-after: 1" in said for said in answers if status(said) == 429)
        took_s = []
        for _ in range(20):
            began = time.monotonic()
            assert status(keep.ask(keep.head(token=keep.tokens["viewer"]))) == 200
            with keep.socket() as hello:
                assert hello.hello(token=keep.tokens["viewer"])["role"] == "viewer"
            took_s.append(time.monotonic() - began)
        assert statistics.median(took_s) < 2 * 0.25, "none of them waits as one that fails does"
        with keep.socket() as refused:
            refused.send({"type": "hello", "protocol": 1, "token": "wrong"})
            assert refused.closed().code == 4401
        assert status(keep.ask(keep.head(token="wrong"), who=2)) == 401, "others are not meant"
    finally:
        assert keep.stop() == (0, "")


def test_every_token_is_compared_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is found by its digest, at the same cost however many there are, and digests of one length are compared."""
    given = [add_token(tmp_path, f"t{number}", "viewer", None) for number in range(5)]
    known = Tokens(tmp_path)
    seen: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counted(one: str, other: str) -> bool:
        seen.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    for token in (given[0], given[-1], "wrong", given[0][:-1]):
        seen.clear()
        known.verify(token)
        assert seen == [(64, 64)] * (2 if token in given else 1)


@pytest.mark.parametrize("content", ["x" * 600, "", "short"], ids=["long", "empty", "short"])
def test_a_file_that_contains_no_token_admits_nobody(tmp_path: Path, content: str) -> None:
    """A token too long or too short to be one stops the start; no empty token matches what could not be read."""
    (tmp_path / OWNER).write_text(content)
    (tmp_path / OWNER).chmod(0o600)
    with pytest.raises(ConfigError, match="contains no token"):
        Tokens(tmp_path)
    assert [SingleToken(content).verify(token) for token in ("", "x" * 600)] == [None, None]
