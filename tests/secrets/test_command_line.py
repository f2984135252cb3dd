"""`jaato run` over real HTTP with secrets in its environment and its file of keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.providers.server import Answer, events, serve, stream
from tests.secrets.canaries import ADDRESS, CORE, PASSWORD, SHAPES, VALUE, leaks

SAVED = "saved" + "-Key-0815"
"""The key in the file of saved keys."""
OWN = "serviCe" + "-4-key"


@pytest.fixture
def desk(tmp_path: Path) -> CliEnvironment:
    """One user's machine, with secrets."""
    made = CliEnvironment(tmp_path)
    made.env |= {
        "DEPLOY_TOKEN": VALUE,
        "DATABASE_URL": ADDRESS,
        "MINE": OWN,
        "JAATO_SERVICE_KEYS": "MINE=api.example",
    }
    made.config.mkdir(parents=True)
    keys = made.config / "keys.json"
    keys.write_text(json.dumps({"openai": {"key": SAVED}}))
    keys.chmod(0o600)
    return made


def replied(*deltas: dict[str, Any]) -> Answer:
    """One streamed reply of a chat completion."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    finish = "tool_calls" if any("tool_calls" in delta for delta in deltas) else "stop"
    chunks: list[Any] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return stream(*events(*chunks, "[DONE]"))


def called(name: str, **arguments: Any) -> Answer:
    """A reply that makes one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return replied(
        {"tool_calls": [{"index": 0, "id": f"c_{name}", "type": "function", "function": function}]}
    )


def test_no_secret_leaves_the_process(desk: CliEnvironment) -> None:
    """Read, printed in a megabyte, said by both sides, in the events of `--output`, in an export and a transcript: the
    bodies the server receives, the streams of the process and every file of the state directory have none."""
    canaries = [VALUE, PASSWORD, SAVED, OWN, CORE]
    text = "\n".join([VALUE, PASSWORD, SAVED, OWN, ADDRESS, *SHAPES.values()])
    (desk.work / "all.txt").write_text(text)
    command = 'for i in $(seq 1 2000); do cat all.txt; done; cat all.txt; echo "$DEPLOY_TOKEN" >&2'
    answers = [
        called("readFile", path="all.txt"),
        called("run", command=command),
        called("run", command="printenv DEPLOY_TOKEN | tee used; false", need=["write"]),
        replied(*({"content": piece} for piece in (f"it is {VALUE[:6]}", VALUE[6:], f" and {OWN}"))),
    ]

    async def main() -> str:
        async with serve(*answers) as server:
            environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "JAATO_MODEL": "m", "JAATO_PROVIDER": "openai"}
            made = await anyio.to_thread.run_sync(
                lambda: desk.run("run", *FLAGS, f"with {VALUE} and {SHAPES['github']}", environ=environ)
            )
            assert made.returncode == 0, made.stderr
            assert len(server.requests) == 4
            bodies = b"".join(request.body for request in server.requests).decode()
            assert bodies.count("[masked:") > 20
            assert server.requests[0].headers["authorization"] == f"Bearer {SAVED}"
            return bodies + made.stdout + made.stderr

    said = anyio.run(main)
    assert (desk.work / "used").read_text() == VALUE + "\n"
    session = desk.sessions()[0]["id"]
    for action in (
        ["export", session],
        ["show", session],
        ["show", "--full", session],
        ["show", "--json", session],
    ):
        said += desk.run("sessions", *action).stdout
    assert {secret: said[at - 60 : at + 60] for secret in canaries if (at := said.find(secret)) >= 0} == {}
    assert leaks(desk.state, *canaries) == []


FLAGS = ["--yes", "--interface", "chat", "--output", "events", "--verbose"]


def test_an_export_of_an_old_session_is_masked(desk: CliEnvironment) -> None:
    """What was stored with `mask_secrets` off is masked where it leaves the store later; off means off."""
    script = desk.script(say(f"it is {VALUE}"))
    off = {"JAATO_MASK_SECRETS": "false"}
    assert VALUE in desk.run("run", *script, "go", environ=off).stdout
    session = desk.sessions()[0]["id"]
    assert leaks(desk.state, VALUE)
    assert VALUE not in desk.run("sessions", "export", session).stdout
    assert VALUE not in desk.run("sessions", "show", session).stdout
    assert VALUE in desk.run("sessions", "export", session, environ=off).stdout


def test_a_strange_workspace_cannot_switch_it_off(desk: CliEnvironment) -> None:
    """An untrusted workspace's file may switch masking on, never off."""
    (desk.work / ".jaato").mkdir()
    (desk.work / ".jaato" / "config.toml").write_text("mask_secrets = false\n")
    (desk.work / "a.txt").write_text(VALUE)
    made = desk.run("run", *desk.script(call("readFile", path="a.txt"), say(f"it is {VALUE}")), "go")
    assert VALUE not in made.stdout
    assert leaks(desk.state, VALUE) == []
