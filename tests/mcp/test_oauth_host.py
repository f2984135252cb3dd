"""The host and a server that wants a login: the reason on the way in, a tool call once somebody has logged in."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.mcp.hosting import hosted
from tests.mcp.player import Machine
from tests.mcp.raw_http import Answer, Asked, document, hand, honest, reply
from tests.mcp.test_oauth_sdk import Provider, browse, served

from jaato import settings
from jaato.errors import JaatoError
from jaato.plugins.mcp.config import expand_variables
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.oauth.login import login, logout
from jaato.plugins.mcp.oauth.token_store import open_store
from jaato.plugins.mcp.pool import SERVER_POOL, SessionServers
from jaato.tools.call import Call
from jaato.tools.remote.sources import SourceContext


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    """The keyring of whoever runs the tests is left alone."""
    import keyring
    from keyring.backends.fail import Keyring

    before = keyring.get_keyring()
    keyring.set_keyring(Keyring())  # type: ignore[no-untyped-call] # keyring has no types
    yield
    keyring.set_keyring(before)


def test_a_server_that_wants_a_login_is_used_after_one(tmp_path: Path) -> None:
    """Without a login a call fails with the command that helps; after it the same session calls the tool, also when
    the token was refused meanwhile; after a logout it fails again. No token is in what is said or logged."""
    provider = Provider()
    with served(provider) as url:
        (tmp_path / "work").mkdir()
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": {"url": url}}}))
        environ = {"PATH": settings.environment()["PATH"]}
        places = SourceContext(
            tmp_path / "work",
            tmp_path,
            tmp_path / "config",
            tmp_path / "state",
            tmp_path / "cache",
            environ,
        )
        said: list[str] = []

        async def add(host: SessionServers) -> Any:
            manifest = await host.connect("notes")
            entry = next(entry for entry in manifest.tools if entry.name == "add")
            call = Call("c-1", "x", {}, output=said.append)
            return await host.call("notes", entry, {"one": 2, "two": 3}, call)

        async def main() -> None:
            host = SessionServers(Directory(places), said.append)
            config, store = (
                expand_variables(host.directory.entry("notes"), environ),
                open_store(tmp_path / "state"),
            )
            try:
                with anyio.fail_after(60):
                    assert host.state("notes")[0] == "configured"
                    with pytest.raises(JaatoError, match="jaato mcp login notes"):
                        await add(host)
                    needs = ("needs login", "log in with `jaato mcp login notes`")
                    assert host.state("notes") == another(places).state("notes") == needs
                    await login(config, store, browse, environ={})
                    assert another(places).state("notes")[0] == "configured"
                    assert (await add(host)).structured == {"result": 5}
                    assert host.state("notes") == ("started", "")
                    provider.access.clear()
                    assert (await add(host)).structured == {"result": 5}
                    await logout(config, store, environ={})
                    with pytest.raises(JaatoError, match="jaato mcp login notes") as caught:
                        await add(host)
                    assert "not known" not in str(caught.value)  # it is: nothing was done
                    assert host.state("notes")[0] == "needs login"
                    said.append(str(caught.value))
            finally:
                host.leave()
                await anyio.to_thread.run_sync(SERVER_POOL.close)

        anyio.run(main)
        given = [*provider.given]
        assert len(given) == 4
        assert not any(secret in text for secret in given for text in said)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(secret.encode() in path.read_bytes() for secret in given for path in files)


def another(places: SourceContext) -> SessionServers:
    """The host of another process, which knows what is kept."""
    return SessionServers(Directory(places), lambda _name: None)


def test_a_server_that_wants_no_login_any_more_is_no_longer_shown_so(tmp_path: Path) -> None:
    """What is known of a login comes from the last answer: one that needed none ends it."""
    ask = [True]

    def gate(connection: socket.socket, asked: Asked) -> bool:
        if ask:
            return reply(connection, "401 Unauthorized", WWW_Authenticate="Bearer")
        return honest(connection, asked)

    def metadata(connection: socket.socket, asked: Asked) -> bool:
        origin = f"http://{asked.headers['host']}"
        told: dict[str, Any] = {
            "resource": f"{origin}/mcp",
            "authorization_servers": [origin],
            "issuer": origin,
        }
        told |= {"token_endpoint": f"{origin}/t", "authorization_endpoint": f"{origin}/a"}
        return document(connection, told)

    answers: dict[str, Answer] = {"server/discover": gate, "initialize": gate, "GET": metadata}
    with hand(**answers) as server:

        async def talk(host: SessionServers) -> list[str]:
            with pytest.raises(JaatoError, match="jaato mcp login far"):
                await host.connect("far")
            shown = [host.state("far")[0]]
            ask.clear()
            await host.connect("far")
            return [*shown, host.state("far")[0], another(host.directory.context).state("far")[0]]

        states = hosted(tmp_path, {"far": {"url": server.url}}, talk)
    assert states == ["needs login", "started", "started"]


def test_the_list_of_another_process_shows_it(tmp_path: Path, player: Path) -> None:
    """`jaato mcp list` shows which servers are known to need a login, without asking any."""
    with served(Provider()) as url:
        desk = Machine(tmp_path, player)
        assert desk.run("mcp", "add", "my notes", "--url", url).code == 0
        failed = desk.run("mcp", "call", "my notes", "add", '{"one": 2, "two": 3}')
        assert failed.code == 1
        assert "run `jaato mcp login 'my notes'`" in failed.err
    made = desk.run("mcp", "list", "--json")
    [server] = json.loads(made.out)["servers"]
    assert server["state"] == "needs login"
    shown = desk.run("mcp", "list")
    assert "needs login" in shown.out
    assert "my notes: log in with `jaato mcp login 'my notes'`" in shown.err
