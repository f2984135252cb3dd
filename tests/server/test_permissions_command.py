"""`/permissions` as data for a panel, and what of it a client over the network may change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
from tests.kit import call, say
from tests.server.serving import Raw, served

from jaato.protocol.events import PermissionRevoked
from jaato.protocol.frames import Opened, Said


async def permissions(client: Raw, session_id: str, rest: str) -> Any:
    """The reply to `/permissions`."""
    return await client.ask("command.execute", session_id=session_id, name="permissions", arguments=rest)


async def shown(client: Raw, session_id: str) -> Any:
    """`/permissions json`."""
    answer = await permissions(client, session_id, "json")
    assert isinstance(answer.result, Said), answer.error
    return json.loads(answer.result.text)


async def answer_turn(client: Raw, session_id: str, answer: str) -> None:
    """A turn whose question is answered so."""
    sent = await client.ask("message.send", session_id=session_id, text="go")
    assert sent.error is None
    while not client.states[session_id].questions:
        await client.next()
    (asked,) = client.states[session_id].questions.values()
    await client.ask(
        "permission.response", session_id=session_id, question_id=asked.question_id, answer=answer
    )
    while client.states[session_id].open_turn is not None:
        await client.next()


def test_rules_name_where_they_come_from_and_answers_are_revoked_over_the_network(tmp_path: Path) -> None:
    """Flags, the file and answers are told apart; an answer that allows is revoked, one that denies and the trust of the
    file are for the server's machine."""
    rules = tmp_path / "work/.jaato/permissions.json"
    rules.parent.mkdir(parents=True)
    rules.write_text(
        json.dumps(
            {
                "version": 1,
                "whitelist": {"tools": ["writeNewFile"]},
                "blacklist": {"patterns": ["run(rm *)"]},
            }
        )
    )
    script = [
        call("run", command="touch a", need=["write"]),
        say("Done."),
        call("run", command="mkdir d", need=["write"]),
        say("Denied."),
    ]

    async def main() -> None:
        with anyio.fail_after(60):
            await talk()

    async def talk() -> None:
        async with served(tmp_path, script) as server, server.client() as local, server.remote() as far:
            await far.hello(token=server.token)
            made = await far.ask("session.create", workspace=str(tmp_path / "work"), allow=["run(make *)"])
            assert isinstance(made.result, Opened), made.error
            session_id = made.result.session_id
            found = await shown(far, session_id)
            assert (found["mode"], found["default"]) == ("ask", "ask")
            assert "is not trusted" in found["distrust"]
            assert {(rule["effect"], rule["pattern"], rule["source"]) for rule in found["rules"]} == {
                ("allow", "run(make *)", "session"),
                ("deny", "run(rm *)", "file"),
            }
            for answer in ("a", "never"):
                await answer_turn(far, session_id, answer)
            found = await shown(far, session_id)
            by_effect = {one["grant"]["effect"]: one for one in found["grants"]}
            assert by_effect["allow"]["covers"].startswith("run(touch ")
            sources = {(rule["effect"], rule["source"]) for rule in found["rules"]}
            assert {("allow", "answer"), ("deny", "answer")} <= sources
            for words in ("trust", f"revoke {by_effect['deny']['grant']['id']}", "revoke g0"):
                refused = await permissions(far, session_id, words)
                assert refused.error is not None
                assert "on the machine of the server" in refused.error.message
            far.events.clear()
            done = await permissions(far, session_id, f"revoke {by_effect['allow']['grant']['id']}")
            assert isinstance(done.result, Said), done.error
            assert any(isinstance(event, PermissionRevoked) for event in far.events)
            await local.ask("session.attach", session_id=session_id)
            left = await shown(local, session_id)
            assert [one["grant"]["effect"] for one in left["grants"]] == ["deny"]
            await permissions(local, session_id, f"revoke {by_effect['deny']['grant']['id']}")
            assert (await shown(local, session_id))["grants"] == []

    anyio.run(main)
