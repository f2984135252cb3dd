"""The channel `webhook`: signed questions and answers, and what a hostile endpoint can do."""

from __future__ import annotations

import hashlib
import hmac
import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.providers.server import Answer as Reply
from tests.providers.server import answer, head, serve

from jaato.abc.asker import Answer, Question
from jaato.errors import ConfigError
from jaato.plugins.permission.webhook_file_channels import KEY, WebhookChannel, WebhookNetwork
from jaato.protocol.ids import new_id
from jaato.tools.network.addresses import AllowedHosts
from jaato.tools.network.webhooks import key_of

C4 = pytest.mark.spec("C4", "Permissions", "C4.permissions.4")
LOCAL = WebhookNetwork({}, AllowedHosts.of(["127.0.0.1"]))
Change = Callable[[dict[str, Any]], dict[str, Any]]


def as_it_is(_asked: dict[str, Any]) -> dict[str, Any]:
    """Nothing is changed."""
    return {}


def question(**more: Any) -> Question:
    """A question about a command."""
    fields: dict[str, Any] = {
        "id": new_id("q"), "call_id": "c1", "tool": "run", "arguments": {"command": "make"}, "digest": "d" * 64,
        "reason": "it runs make",
    }  # fmt: skip
    return Question(**{**fields, **more})


def channel(
    path: Path, port: int, timeout_s: float = 20.0, reach: WebhookNetwork = LOCAL, host: str = "127.0.0.1"
) -> WebhookChannel:
    """A webhook on a loopback port."""
    return WebhookChannel(f"http://{host}:{port}/ask", timeout_s, state_dir=path, reach=reach)


@asynccontextmanager
async def approver(
    path: Path, change: Change = as_it_is, sign: Change = as_it_is
) -> AsyncIterator[tuple[int, list[Any]]]:
    """Somebody who answers y, signed; `change` alters the answer, `sign` what is signed in its place. Gives the port and
    what was asked, with whether its signature was good."""
    seen: list[Any] = []
    key = key_of(path / KEY)

    def signed(nonce: str, body: bytes) -> str:
        return "v1=" + hmac.new(key, nonce.encode() + b"." + body, hashlib.sha256).hexdigest()

    async def attend(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            raw = b""
            while b"\r\n\r\n" not in raw:
                raw += await stream.receive()
            headers, _, body = raw.partition(b"\r\n\r\n")
            length = int(headers.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            while len(body) < length:
                body += await stream.receive()
            asked = json.loads(body)
            given = headers.lower().split(b"jaato-signature: ")[1].split(b"\r\n")[0].decode()
            seen.append((asked, given == signed(asked["nonce"], body)))
            said = {name: asked[name] for name in ("question_id", "digest", "nonce")} | {"answer": "y"}
            said |= change(asked)
            data = json.dumps(said).encode()
            mark = signed(str(sign(asked).get("nonce", asked["nonce"])), data)
            await stream.send(head(200, {"content-length": str(len(data)), "jaato-signature": mark}) + data)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, attend)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), seen
        group.cancel_scope.cancel()
    await listener.aclose()


# --- webhook ---------------------------------------------------------------------------------------------------------


@C4
def test_a_webhook_is_asked_and_answers(tmp_path: Path) -> None:
    """The question is posted, signed, with tool, arguments and digest; the signed answer counts, comment and all."""

    async def main() -> None:
        def change(_asked: dict[str, Any]) -> dict[str, Any]:
            return {"answer": "c", "comment": "later", "by": "ann\x1b[2J"}

        async with approver(tmp_path, change) as (port, seen):
            mine = question()
            given = await channel(tmp_path, port).ask_async(mine)
        assert given == Answer(answer="c", comment="later", by="webhook 127.0.0.1 (ann [2J)")
        [(asked, good)] = seen
        assert good
        assert asked["tool"] == "run"
        assert asked["arguments"] == {"command": "make"}
        assert (asked["question_id"], asked["digest"]) == (mine.id, mine.digest)
        assert stat.S_IMODE((tmp_path / "webhook-key").stat().st_mode) == 0o600

    anyio.run(main)


@C4
@pytest.mark.parametrize(
    "change",
    [
        lambda _: {"digest": "e" * 64}, lambda _: {"question_id": "q2"}, lambda _: {"nonce": "0" * 32},
        lambda _: {"nonce": None}, lambda _: {"answer": 3}, lambda _: {"answer": None}, lambda _: {"extra": 1},
        lambda _: {"arguments": "x"},
    ],
)  # fmt: skip
def test_an_answer_to_something_else_does_not_count(tmp_path: Path, change: Change) -> None:
    """Another digest, question or nonce, or what is no answer, is nobody's answer."""

    async def main() -> None:
        async with approver(tmp_path, change) as (port, _):
            assert await channel(tmp_path, port).ask_async(question()) is None

    anyio.run(main)


@C4
def test_an_answer_that_is_signed_for_another_question_does_not_count(tmp_path: Path) -> None:
    """An answer recorded before cannot be used again: its signature is over another nonce."""

    async def main() -> None:
        async with approver(tmp_path, sign=lambda _: {"nonce": "0" * 32}) as (port, _):
            assert await channel(tmp_path, port).ask_async(question()) is None

    anyio.run(main)


@C4
@pytest.mark.parametrize(
    "reply",
    [
        answer({"answer": "y"}), answer(b"", 204), answer(b"no", 500), answer(b"x" * 200_000),
        answer(b"", 302, location="http://127.0.0.1:1/"), answer(b"", 307, location="/again"),
        Reply([b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", "cut"]), Reply([b"garbage\r\n\r\n", "close"]),
        Reply(["close"]), answer(b"[" * 60_000, jaato_signature="v1=0"),
    ],
)  # fmt: skip
def test_a_hostile_endpoint_allows_nothing(tmp_path: Path, reply: Reply) -> None:
    """Unsigned, huge, broken, refused and redirected answers count as nobody's; no redirect is followed."""

    async def main() -> None:
        async with serve(reply) as server:
            assert await channel(tmp_path, server.port).ask_async(question()) is None
            assert len(server.requests) == 1

    anyio.run(main)


@C4
@pytest.mark.parametrize("steps", [["hold"], [head(200, {"content-length": "9"}), "hold"]])
def test_a_slow_endpoint_is_left_at_the_deadline(tmp_path: Path, steps: list[Any]) -> None:
    """The channel has its own deadline for the whole exchange; then it is a timeout, and the connection is gone."""

    async def main() -> None:
        async with serve(Reply(steps)) as server:
            with pytest.raises(TimeoutError):
                await channel(tmp_path, server.port, 0.2).ask_async(question())
            await server.gone.wait()

    anyio.run(main)


@C4
def test_private_addresses_and_plain_http_are_refused(tmp_path: Path) -> None:
    """Loopback is reached only when `allow_hosts` names it, others over https only; a bad endpoint is a `ConfigError`."""

    async def main() -> None:
        async with serve(answer({})) as server:
            assert (
                await channel(tmp_path, server.port, reach=WebhookNetwork({})).ask_async(question()) is None
            )
            assert server.connections == 0

    anyio.run(main)
    for endpoint in (
        None,
        "",
        "http://example.com/x",
        "ftp://x",
        "https://u:p@x/",
        "file:///etc/passwd",
        "x" * 9000,
    ):
        with pytest.raises(ConfigError):
            WebhookChannel(endpoint, None, state_dir=tmp_path, reach=LOCAL)


@C4
def test_the_key_is_private_and_kept(tmp_path: Path) -> None:
    """It is made once; one that others can read, or that is none, is not used."""
    key = key_of(tmp_path / KEY)
    assert key_of(tmp_path / KEY) == key
    (tmp_path / "webhook-key").chmod(0o644)
    with pytest.raises(ConfigError, match="Others can read"):
        key_of(tmp_path / KEY)
    (tmp_path / "webhook-key").write_bytes(b"short")
    (tmp_path / "webhook-key").chmod(0o600)
    with pytest.raises(ConfigError, match="no key"):
        key_of(tmp_path / KEY)
