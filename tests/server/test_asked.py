"""Questions of sessions on a server: their deadline, and the channel of the policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.kit import call, say
from tests.server.serving import served
from tests.server.test_resting import begun, until

from jaato.client.connection import connect
from jaato.protocol.events import PermissionRequested, PermissionResolved, TurnCompleted
from jaato.protocol.frames import Settled
from jaato.providers.scripted import Step
from jaato.tools.permissions.gate import Policy


def test_a_question_has_a_deadline_that_clients_see(tmp_path: Path) -> None:
    """`question_timeout_s`: the question names its deadline and default; after it the call is denied with the reason."""
    config = tmp_path / ".config" / "jaato"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("question_timeout_s = 0.3\n")

    async def main() -> None:
        script = [call("run", command="touch x", need=["write"]), say("it was denied")]
        async with served(tmp_path, script) as server, server.client() as client:
            await begun(client, tmp_path)
            await client.ask("message.send", text="go")
            asked = [e for e in client.events if isinstance(e, PermissionRequested)]
            question = asked[0] if asked else await client.until(PermissionRequested)
            assert question.deadline is not None
            assert question.deadline > question.timestamp
            assert question.default == "n"
            settled = [e for e in client.events if isinstance(e, PermissionResolved)]
            resolved = settled[0] if settled else await client.until(PermissionResolved)
            assert (resolved.permission.decision, resolved.permission.method) == ("denied", "timeout")
            late = await client.ask("permission.response", question_id=question.question_id, answer="y")
            assert isinstance(late.result, Settled)
            assert not late.result.accepted
        assert not (tmp_path / "work" / "x").exists()

    anyio.run(main)


def test_an_edit_that_does_not_fit_leaves_the_question_open(tmp_path: Path) -> None:
    """Edited arguments that the tool cannot be called with are refused with each problem, for the one who sent them; the
    question stays for all, and the next answer counts."""

    async def main() -> None:
        script = [call("run", command="touch x", need=["write"]), say("done")]
        async with served(tmp_path, script) as server, server.client() as client, server.client() as other:
            session_id = await begun(client, tmp_path)
            await other.ask("session.attach", session_id=session_id)
            await client.ask("message.send", text="go")
            question = await other.until(PermissionRequested)
            for arguments in ({"command": 3}, {}, {"command": "ls", "bogus": 1}):
                refused = await client.ask(
                    "permission.response", question_id=question.question_id, answer="e", arguments=arguments
                )
                assert refused.error is not None
                assert refused.error.code == "arguments_invalid"
                assert f"/{'bogus' if 'bogus' in arguments else 'command'}" in refused.error.message
            assert not any(isinstance(event, PermissionResolved) for event in other.events)
            fits = {"command": "touch y", "need": ["write"]}
            taken = await other.ask(
                "permission.response", question_id=question.question_id, answer="e", arguments=fits
            )
            assert isinstance(taken.result, Settled)
            assert taken.result.accepted
            await other.until(TurnCompleted)
        assert (tmp_path / "work" / "y").exists()
        assert not (tmp_path / "work" / "x").exists()

    anyio.run(main)


@pytest.mark.spec("C4", "Permissions", "C4.permissions.4")
@pytest.mark.parametrize(
    ("answer", "decision"),
    [({"answer": "y"}, "allowed"), ({"answer": "e", "arguments": {"command": 3}}, "denied")],
)
def test_a_session_asks_the_channel_of_its_policy(
    tmp_path: Path, answer: dict[str, Any], decision: str
) -> None:
    """A trusted permission file that names the channel `file`: the question is seen by clients and asked in files; the
    first answer counts, with nobody attached too. One with arguments that do not fit denies the call."""
    ask = tmp_path / "ask"
    script: list[Step] = [call("run", command="touch x", need=["write"]), say("done")]

    async def answer_file() -> None:
        await until(lambda: list(ask.glob("*.question.json")))
        [file] = ask.glob("*.question.json")
        asked = json.loads(file.read_text())
        said = {"question_id": asked["question_id"], "digest": asked["digest"], "by": "ann", **answer}
        (ask / ".part").write_text(json.dumps(said))
        (ask / ".part").rename(ask / f"{asked['question_id']}.answer.json")

    async def main() -> None:
        policy = Policy.of({"channel": {"type": "file", "endpoint": str(ask), "timeout": 20}})
        async with served(tmp_path, script, policy=policy) as server, server.client() as client:
            await client.ask("client.config", answers=False)
            await begun(client, tmp_path)
            async with anyio.create_task_group() as group:
                group.start_soon(answer_file)
                await client.ask("message.send", text="go")
                settled = [e for e in client.events if isinstance(e, PermissionResolved)]
                resolved = settled[0] if settled else await client.until(PermissionResolved)
            assert (resolved.permission.decision, resolved.by) == (decision, "file (ann)")
            if not any(isinstance(event, TurnCompleted) for event in client.events):
                await client.until(TurnCompleted)
        assert (tmp_path / "work" / "x").exists() == (decision == "allowed")
        assert not list(ask.glob("*.json"))

    anyio.run(main)


@pytest.mark.parametrize(
    ("mode", "decided", "by"),
    [("auto", ("allowed", "mode"), "the mode"), ("read-only", ("denied", "read_only"), "the mode")],
)
def test_a_question_that_the_mode_decides_is_settled(
    tmp_path: Path, mode: str, decided: tuple[str, str], by: str
) -> None:
    """Where another mode allows or denies what is asked about, the question is settled for every client, recorded as decided
    so, and the turn continues; a late answer names what was faster."""

    async def main() -> None:
        script = [call("run", command="touch x", need=["write"]), say("done")]
        async with (
            served(tmp_path, script) as server,
            connect(server.path, name="one") as one,
            connect(server.path, name="two") as two,
        ):
            session = await one.create(tmp_path / "work")
            other = await two.attach(session.id)
            await session.send("go")
            with anyio.fail_after(30):
                while not other.state.questions:
                    await anyio.sleep(0.01)
                [question] = other.state.questions
                await session.execute("mode", "accept-edits")
                assert [*session.state.questions] == [question]
                await session.execute("mode", mode)
                while session.state.turns < 1 or other.state.turns < 1:
                    await anyio.sleep(0.01)
            assert not session.state.questions
            assert not other.state.questions
            stored = server.hub.store.read(session.id)
            [resolved] = [event for event in stored if isinstance(event, PermissionResolved)]
            assert (resolved.permission.decision, resolved.permission.method) == decided
            assert (resolved.question_id, resolved.by) == (question, by)
            late = await other.allow(question)
            assert (late.accepted, late.by) == (False, by)
        assert (tmp_path / "work" / "x").exists() == (mode == "auto")

    anyio.run(main)


def test_a_question_that_a_trusted_rule_decides_is_settled(tmp_path: Path) -> None:
    """The user trusts the permission file while a call that it allows is asked about: the question is settled by the rule."""
    rules = tmp_path / "work" / ".jaato" / "permissions.json"
    rules.parent.mkdir(parents=True)
    rules.write_text(json.dumps({"version": 1, "whitelist": {"patterns": ["run(touch *)"]}}))

    async def main() -> None:
        script = [call("run", command="touch x", need=["write"]), say("done")]
        async with served(tmp_path, script) as server, connect(server.path, name="one") as one:
            session = await one.create(tmp_path / "work")
            await session.send("go")
            with anyio.fail_after(30):
                while not session.state.questions:
                    await anyio.sleep(0.01)
                await session.execute("permissions", "trust")
                while session.state.turns < 1:
                    await anyio.sleep(0.01)
            stored = server.hub.store.read(session.id)
            [resolved] = [event for event in stored if isinstance(event, PermissionResolved)]
            assert (resolved.permission.method, resolved.by) == ("whitelist", "the rules")
        assert (tmp_path / "work" / "x").exists()

    anyio.run(main)
