"""What `jaato run` loads and leaves, in this process and at a server, and what is asked before a download."""

from __future__ import annotations

import subprocess
import sys

import anyio
import pexpect
import pytest
from tests.cli.environment import CliEnvironment, say
from tests.cli.terminal import talking
from tests.providers.server import events, serve, stream

CODE = """
import os, sys, threading
from jaato.cli import main
before = set(os.listdir("/proc/self/fd"))
code = main({args!r})
left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
left += sorted(set(os.listdir("/proc/self/fd")) - before)
open({report!r}, "w").write(" ".join([str(code), *sys.modules]) + "\\n" + " ".join(left))
"""


def ran(desk: CliEnvironment, *args: str) -> tuple[set[str], list[str]]:
    """The modules a command has loaded, and the threads and descriptors it has left."""
    report = desk.root / "report"
    code = CODE.format(args=list(args), report=str(report))
    subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, env=desk.env, cwd=desk.work, check=True
    )
    modules, left = report.read_text().split("\n")
    assert modules.split()[0] == "0"
    return set(modules.split()), left.split()


def test_a_run_in_this_process_loads_no_network_server_and_leaves_nothing(desk: CliEnvironment) -> None:
    """The hub is there, no socket is served; threads, descriptors and the lease are given back."""
    modules, left = ran(desk, "run", *desk.script(say("ok")), "hi")
    assert {
        "jaato.server.sessions.hub",
        "jaato.server.sessions.client_connection",
        "jaato.server.in_memory",
    } <= modules
    assert not modules & {"uvicorn", "starlette", "websockets", "jaato.server.auth.gate", "jaato.server.app"}
    assert left == []
    assert not [row for row in desk.sessions() if row["standing"]]


UNUSED = {
    "httpx2",
    "tomllib",
    "difflib",
    "html.entities",
    "tree_sitter",
    "jaato.tools.permissions.evaluation",
    "jaato.tools.shell.parser",
    "jaato.tools.search.bm25",
    "jaato.tools.processes.launcher",
    "jaato.tools.processes.sandbox.backends",
    "jaato.tools.processes.sandbox.mount_plan",
    "jaato.runtime.plugins.memory_import",
    "jaato.storage.bundle_import",
    "jaato.storage.bundle_export",
    "jaato.storage.fork",
    "jaato.agent.compaction.run",
    "jaato.agent.compaction.clearing",
    "jaato.agent.compaction.record",
    "jaato.agent.compaction.summary",
    "jaato.agent.compaction.history",
    "jaato.agent.compaction.checks",
}
"""What a prompt does not need that makes no call, in a workspace without configuration."""
MOST_MODULES = 218
"""Of this program: each costs a fifth of a millisecond at least."""


def test_a_prompt_without_a_call_loads_what_it_uses(desk: CliEnvironment) -> None:
    """Over HTTP, with a new session: no parser of the shell, no sandbox's back end, no search, and few modules in all."""
    delta = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}

    async def main() -> None:
        async with serve(stream(*events(delta, "[DONE]"))) as server:
            desk.env["OPENAI_BASE_URL"] = f"{server.url}/v1"
            modules, _ = await anyio.to_thread.run_sync(lambda: ran(desk, "run", "--model", "m", "hi"))
            assert "httpcore2" in modules
            assert modules & UNUSED == set()
            assert len([name for name in modules if name.split(".")[0] == "jaato"]) <= MOST_MODULES

    anyio.run(main)


def test_a_run_at_a_server_loads_no_loop_and_no_agent(desk: CliEnvironment) -> None:
    """The client of a server is small: no event loop, no TLS, nothing of the session."""
    with desk.serving():
        modules, left = ran(desk, "run", *desk.script(say("ok")), "hi")
    assert not modules & {"asyncio", "anyio", "ssl", "jaato.server.sessions.hub", "jaato.agent.session"}
    assert left == []


@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_download_is_asked_about(desk: CliEnvironment, command: str) -> None:
    """Before the embedded model is fetched, somebody at the terminal is asked; a no ends the command."""
    desk.env["HTTPS_PROXY"] = "http://127.0.0.1:9"
    model = ("--provider", "local", "--model", "qwen2.5-coder-0.5b-instruct")
    with talking(desk, *model, "hi", command=command) as child:
        child.expect(r"\[y/N\] ")
        child.sendline("n")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus not in (0, None)
