"""What those who are let in may do, and that no word of theirs becomes a path."""

from __future__ import annotations

import time
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.security.auth_server import Keep, awaited

from jaato.client.websocket import Closed
from jaato.protocol.commands import Command
from jaato.server.auth.tokens import add_token, remove_token

WATCHING = {
    "session.attach",
    "session.detach",
    "session.list",
    "history.request",
    "blob.request",
    "client.config",
}
ANSWERING = {"permission.response", "clarification.response"}
OWNING = {
    "call.stop",
    "command.execute",
    "file.response",
    "files.find",
    "message.send",
    "server.reload",
    "session.create",
    "session.delete",
    "session.fork",
    "session.settle",
    "session.stop",
    "session.update",
    "task.stop",
    "tools.disable",
    "turn.continue",
}
LOCAL = {"pairing.create"}
"""Commands of the owner on the Unix socket."""
COMMANDS = {kind.__struct_config__.tag: kind for kind in typing.get_args(Command)}


def filled(kind: Any) -> dict[str, Any]:
    """The fields a command must have."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.required:
            values[field.encode_name] = {"answers": [], "tools": []}.get(field.encode_name, "x")
    return values


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_role_is_what_it_may_do(keep: Keep, name: str) -> None:
    """A viewer watches, an approver also answers, an owner does everything; for each command somebody has decided. What is
    for this machine no token allows."""
    assert sum(name in names for names in (WATCHING, ANSWERING, OWNING, LOCAL)) == 1, (
        "whose is it? say so above"
    )
    allowed = {"viewer": WATCHING, "approver": WATCHING | ANSWERING, "owner": WATCHING | ANSWERING | OWNING}
    for role, names in allowed.items():
        with keep.client(keep.tokens[role]) as line:
            said = line.command(name, session_id="none", **filled(COMMANDS[name]))
            code = said.get("error", {}).get("code")
            assert (code == "not_allowed") == (name not in names), said


def test_a_role_a_client_claims_counts_for_nothing(keep: Keep) -> None:
    """Neither hello nor any command makes a viewer more than one."""
    claims: dict[str, Any] = {"role": "owner", "admin": True, "roles": ["owner"], "answers": True}
    with keep.socket(keep.tokens["viewer"]) as line:
        assert line.hello(token=keep.tokens["owner"], **claims)["role"] == "viewer", (
            "the header's token counts"
        )
        line.command("client.config", **claims)
        said = line.command("session.create", workspace=str(keep.work), **claims)
        assert said["error"]["code"] == "not_allowed"
        said = line.command("permission.response", question_id="q", answer="y", **claims)
        assert said["error"]["code"] == "not_allowed"


def test_nothing_is_heard_before_hello(keep: Keep) -> None:
    """A command in place of the greeting ends the connection, whoever sends it."""
    for token in (None, keep.tokens["owner"]):
        messages: tuple[Any, ...] = (
            {"type": "session.list", "id": "1"},
            {"type": "hello"},
            [],
            "hello",
            1,
            None,
        )
        for message in messages:
            with keep.socket(token) as line:
                line.send(message)
                assert line.closed().code == 4400


@pytest.mark.parametrize("how", ["removed", "changed", "expired"])
def test_who_came_with_a_token_goes_with_it(keep: Keep, how: str) -> None:
    """A token that is taken away, given anew with another role, or runs out while its bearer is connected ends that connection."""
    name = f"guest-{how}"
    token = add_token(keep.state, name, "approver", time.time() + 3 if how == "expired" else None)
    if how != "expired":
        awaited(lambda: known(keep, token))
    with keep.socket() as line, keep.client(keep.tokens["owner"]) as owner:
        if how == "expired":
            awaited(lambda: known(keep, token))
        line.hello(token=token)
        if how != "expired":
            remove_token(keep.state, name)
        if how == "changed":
            add_token(keep.state, name, "owner", None)
        assert line.closed() == Closed(4401, "the token is no longer valid")
        assert "result" in owner.command("session.list"), "the others stay"


def known(keep: Keep, token: str) -> bool:
    """Whether the server knows of a new token yet."""
    return b" 200 " in keep.ask(keep.head(token=token), who=3)


HOSTILE: tuple[Any, ...] = (
    "../../x",
    "../" * 50 + "etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "\0",
    "a\0b",
    "x" * 1_000_000,
    "\u202e\u0007\x1b[2J\ud7ff",
    "%2e%2e%2f",
    "' OR 1=1 --",
    "%",
    "_",
    "*",
    "CON",
    "~root",
    "$(touch x)",
    "\U0010ffff" * 100,
    1,
    1.5,
    10**400,
    True,
    None,
    [],
    {},
    ["../../x"],
)


def shown(value: Any) -> str:
    """A value as a test's id."""
    return ascii(value)[:24]


def inside(keep: Keep) -> set[Path]:
    """Every file of the server's user, but those a database brings along."""
    root = keep.home.parent
    return {path for path in root.rglob("*") if not path.name.startswith("jaato.db")}


@pytest.mark.parametrize("value", HOSTILE, ids=shown)
def test_session_ids_are_names(keep: Keep, value: Any) -> None:
    """A session that is not there is not there, however it is written: no file is touched, nothing goes wrong inside."""
    with keep.client(keep.tokens["owner"]) as line:
        made = line.command("session.create", once="there", attach=False, **keep.scripted())
        assert "result" in made, made
        before = inside(keep)
        for name in sorted(COMMANDS):
            if name in ("session.list", "client.config", "session.create", "server.reload", "pairing.create"):
                continue
            said = line.command(name, **filled(COMMANDS[name]), session_id=value)
            assert said["error"]["code"] in ("session_not_found", "command_invalid", "config_invalid"), said
            assert len(said["error"]["message"]) < 5_000
        assert "result" in line.command("session.list")
    assert inside(keep) == before


@pytest.mark.parametrize("value", HOSTILE, ids=shown)
def test_workspaces_are_absolute_directories(keep: Keep, value: Any) -> None:
    """A workspace is the absolute path of a directory that is there; anything else is refused, and none is made."""
    before = inside(keep)
    with keep.client(keep.tokens["owner"]) as line:
        for given in (value, f"{keep.work}/none/{value}" if isinstance(value, str) else value):
            said = line.command("session.create", workspace=given)
            assert "result" not in said, said
            assert said["error"]["code"] != "internal", said
        said = line.command("session.list", workspace=value)
        assert said.get("error", {}).get("code") != "internal", said
    assert inside(keep) == before


@pytest.mark.parametrize("value", HOSTILE, ids=shown)
@pytest.mark.parametrize(
    "field",
    ["name", "provider", "model", "base_url", "plugins", "environment", "once", "system_prompt"],
)
def test_what_a_session_is_told_is_checked(keep: Keep, field: str, value: Any) -> None:
    """Whatever a new session is told, the answer is a session or a reason, never a fault of the server."""
    with keep.client(keep.tokens["owner"]) as line:
        fields: dict[str, Any] = {"provider": "scripted", "model": "none.json"} | {field: value}
        if field in ("plugins", "environment") and isinstance(value, str):
            fields[field] = [value] if field == "plugins" else {value: value}
        said = line.command("session.create", workspace=str(keep.work), **fields)
        assert said.get("error", {}).get("code") != "internal", said
        assert "result" in line.command("session.list")


@pytest.mark.parametrize("value", HOSTILE, ids=shown)
def test_lists_and_pages_bear_anything(keep: Keep, value: Any) -> None:
    """Cursors, queries, limits and places of the log may be anything a client sends."""
    with keep.client(keep.tokens["viewer"]) as line:
        for fields in ({"cursor": value}, {"query": value}, {"limit": value}, {"workspace": value}):
            said = line.command("session.list", **fields)
            assert said.get("error", {}).get("code") != "internal", said
        said = line.command("client.config", answers=value)
        assert said.get("error", {}).get("code") != "internal", said
