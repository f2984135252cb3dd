"""`process_list` and `port_list` agree with the machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from jaato.plugins.machine import MachinePlugin, iterate_connections, list_listeners, redact_command
from jaato.protocol.specs import SandboxAccess
from jaato.tools.call import Call
from jaato.tools.processes.command import Command, CommandLimits
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import Sandbox
from jaato.tools.tool import tools_of


class Host:
    """A host with an environment."""

    workspace = Path("/")
    config: dict[str, Any] = {}

    def service(self, name: str) -> Any:
        assert name == "environ"
        return {"MY_API_KEY": "canary-of-the-environment", "HOME": "/home/someone"}


def ask(name: str, **arguments: Any) -> Any:
    tool = {tool.name: tool for tool in tools_of(MachinePlugin(Host()), "machine")}[name]
    assert not tool.issues(arguments)
    return anyio.run(lambda: tool.run(arguments, Call("1", name, arguments)))


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that prints when it is ready, and is ended in the end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


BUSY = "print(1, flush=True)\nwhile True: pass"
ASLEEP = "import time\nprint(1, flush=True)\ntime.sleep(60)"


def test_a_busy_process_is_found_with_its_figures() -> None:
    """Name, parent, user, state, use of the processor and memory are the process's own."""
    with running(sys.executable, "-c", BUSY, "the-busy-one") as process:
        (row,) = ask("process_list", filter="THE-BUSY-ONE")["processes"]
        assert (row["pid"], row["parent"]) == (process.pid, os.getpid())
        assert row["cpu_percent"] > 0
        assert row["memory_mb"] > 1
        assert row["user"] == psutil.Process(process.pid).username()
        assert row["command"].endswith("the-busy-one")


def test_a_process_with_those_it_started() -> None:
    """`pid` answers the process and all below it, and nothing else."""
    code = f"import subprocess,sys\nsubprocess.run([sys.executable,'-c',{ASLEEP!r}])"
    with running(sys.executable, "-c", code) as process:
        rows = ask("process_list", pid=process.pid, sort="pid")["processes"]
        assert [row["parent"] for row in rows] == [os.getpid(), process.pid]
        for row in rows[1:]:
            os.kill(row["pid"], 9)


def test_lists_are_bounded_and_sorted() -> None:
    """The limit holds, the total is told, and the order is the one asked for."""
    found = ask("process_list", sort="memory", limit=3)
    sizes = [row["memory_mb"] for row in found["processes"]]
    assert len(sizes) <= 3 < found["total"]
    assert sizes == sorted(sizes, reverse=True)
    assert ask("process_list", filter="no process is called like this")["processes"] == []
    assert ask("process_list", pid=2**22 + 1) == {"processes": [], "total": 0}


def test_secrets_in_command_lines_are_not_shown() -> None:
    """Neither options, assignments, headers, addresses nor known shapes of keys give a secret away."""
    secrets = ["--password=canary1", "--token", "canary2", "API_KEY=canary3", "https://user:canary4@example.org/",
               "Authorization: Bearer canary5", "ghp_canary6canary6canary6", "x canary-of-the-environment y"]  # fmt: skip
    with running(sys.executable, "-c", ASLEEP, "the-secretive-one", *secrets):
        (row,) = ask("process_list", filter="the-secretive-one")["processes"]
        assert "canary" not in row["command"]
        assert "--password=***" in row["command"]
        assert "https://***@example.org/" in row["command"]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["mysql", "-pcanary", "-u", "root"], "mysql -p*** -u root"),
        (["/usr/bin/sshpass", "-p", "canary", "ssh"], "/usr/bin/sshpass -p *** ssh"),
        (["curl", "-H", "X-Api-Key: canary", "http://a/?token=canary&x=1"], "curl -H X-Api-Key: *** http://a/?token=***&x=1"),
        (["env", "AWS_SECRET_ACCESS_KEY=canary", "x"], "env AWS_SECRET_ACCESS_KEY=*** x"),
        (["x", "--client-secret", "canary", "--next"], "x --client-secret *** --next"),
        (["x", "--no-password", "--next"], "x --no-password --next"),
        (["sudo", "-u", "db", "mysql", "-pcanary"], "sudo -u db mysql -p***"),
        (["sh", "-c", "cd /x && mysql  -pcanary -e 'select 1'"], "sh -c cd /x && mysql  -p*** -e 'select 1'"),
        (["sh", "-c", "x --password canary; y"], "sh -c x --password *** y"),
        (["curl", "--user", "me:canary", "--user-agent", "ua", "a"], "curl --user *** --user-agent ua a"),
        (["redis-cli", "-a", "canary", "ping"], "redis-cli -a *** ping"),
        (["docker", "login", "-u", "me", "-p", "canary"], "docker login -u me -p ***"),
        (["docker", "run", "-p", "80:80", "x"], "docker run -p 80:80 x"),
        (["unzip", "-P", "canary", "a.zip"], "unzip -P *** a.zip"),
        (["python", "-c", "print(1)"], "python -c print(1)"),
        ([], ""),
    ],
)  # fmt: skip
def test_what_is_hidden(command: list[str], shown: str) -> None:
    """The value goes, what names it stays, and the rest of the line is whole."""
    assert redact_command(command) == shown


def test_a_process_s_own_name_cannot_forge_fields() -> None:
    """A name with brackets, spaces and newlines is one name."""
    name = ") R 1 1\n(x"
    code = f"import ctypes\nctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0)\n{ASLEEP}"
    with running(sys.executable, "-c", code) as process:
        (row,) = ask("process_list", pid=process.pid)["processes"]
        assert (row["name"], row["parent"]) == (name, os.getpid())


def test_listening_sockets_have_their_process() -> None:
    """TCP and UDP, of both families, are found by port; a connected socket is none that listens."""
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.create_connection(four.getsockname()) as client,
    ):
        datagrams.bind(("127.0.0.1", 0))
        port = four.getsockname()[1]
        (row,) = ask("port_list", port=port)["listening"]
        assert (row["address"], row["pid"], row["protocol"]) == ("127.0.0.1", os.getpid(), "tcp")
        assert row["process"] == psutil.Process().name()
        assert ask("port_list", port=six.getsockname()[1])["listening"][0]["address"] == "::1"
        udp = datagrams.getsockname()[1]
        assert not ask("port_list", port=udp)["listening"]
        assert ask("port_list", port=udp, protocol="udp")["listening"][0]["pid"] == os.getpid()
        assert ask("port_list", port=client.getsockname()[1], protocol="any")["listening"] == []


def test_sockets_are_found_process_by_process() -> None:
    """Where the system does not tell of all, as on macOS, one's own are found all the same."""
    with socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0)):
        ours = {one.port for one in list_listeners() if one.pid == os.getpid()}
        assert len(ours) == 2
        assert ours <= {one.laddr.port for one, pid in iterate_connections() if pid == os.getpid()}


def test_a_list_can_be_cancelled() -> None:
    """A cancelled call ends at once."""
    tool = tools_of(MachinePlugin(Host()), "machine")[0]

    async def main() -> bool:
        with anyio.move_on_after(0.01) as scope:
            await tool.run({}, Call("1", "process_list", {}))
        return scope.cancelled_caught

    assert anyio.run(main)


def test_the_tools_read() -> None:
    """Both only read, are discoverable, and are described in forty words."""
    for tool in tools_of(MachinePlugin(Host()), "machine"):
        assert (tool.spec.access, tool.spec.category, tool.spec.discoverability) == (
            "read",
            "system",
            "discoverable",
        )
        assert 5 < len(tool.spec.description.split()) <= 40


def test_what_jaato_started_is_told_apart(tmp_path: Path) -> None:
    """Also a process in the sandbox, by the id that it has outside."""

    async def work() -> dict[str, Any]:
        sandbox = Sandbox(tmp_path, environ={"PATH": os.defpath, "HOME": str(tmp_path)})
        confinement = await sandbox.confine(SandboxAccess("read-only"), tmp_path, "s")
        launcher = WardenClient()
        command = Command(
            ["sleep", "4711"],
            tmp_path,
            {"PATH": os.defpath},
            limits=CommandLimits(),
            show=lambda _: None,
            confinement=confinement,
        )
        found: dict[str, Any] = {}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(command.run, launcher)
            while not found.get("processes"):
                rows = await MachinePlugin(Host()).process_list(filter="sleep 4711", limit=500)
                found = {"processes": [row for row in rows["processes"] if row["name"] == "sleep"]}
            others = await MachinePlugin(Host()).process_list(pid=1)
            command.stop()
        launcher.close()
        sandbox.close()
        return found | {"init": others["processes"]}

    found = anyio.run(work)
    (row,) = found["processes"]
    assert (row["own"], row["sandbox"]) == (True, True)
    assert os.getpid() == 1 or all("own" not in one for one in found["init"] if one["pid"] == 1)
