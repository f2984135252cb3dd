"""What `jaato run` loads and leaves, in this process and at a server, and what is asked before a download."""

from __future__ import annotations

import subprocess
import sys

import pexpect
import pytest
from tests.cli.desk import Desk, say
from tests.cli.terminal import talking

CODE = """
import os, sys, threading
from jaato.cli import main
before = set(os.listdir("/proc/self/fd"))
code = main({args!r})
left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
left += sorted(set(os.listdir("/proc/self/fd")) - before)
open({report!r}, "w").write(" ".join([str(code), *sys.modules]) + "\\n" + " ".join(left))
"""


def ran(desk: Desk, *args: str) -> tuple[set[str], list[str]]:
    """The modules a command has loaded, and the threads and descriptors it has left."""
    report = desk.root / "report"
    code = CODE.format(args=list(args), report=str(report))
    subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, env=desk.env, cwd=desk.work, check=True
    )
    modules, left = report.read_text().split("\n")
    assert modules.split()[0] == "0"
    return set(modules.split()), left.split()


def test_a_run_in_this_process_loads_no_network_server_and_leaves_nothing(desk: Desk) -> None:
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


def test_a_run_at_a_server_loads_no_loop_and_no_agent(desk: Desk) -> None:
    """The client of a server is small: no event loop, no TLS, nothing of the session."""
    with desk.serving():
        modules, left = ran(desk, "run", *desk.script(say("ok")), "hi")
    assert not modules & {"asyncio", "anyio", "ssl", "jaato.server.sessions.hub", "jaato.agent.session"}
    assert left == []


@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_download_is_asked_about(desk: Desk, command: str) -> None:
    """Before the embedded model is fetched, somebody at the terminal is asked; a no ends the command."""
    desk.env["HTTPS_PROXY"] = "http://127.0.0.1:9"
    model = ("--provider", "local", "--model", "qwen2.5-coder-0.5b-instruct")
    with talking(desk, *model, "hi", command=command) as child:
        child.expect(r"\[y/N\] ")
        child.sendline("n")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus not in (0, None)
