"""What shows that a process runs below a call, and what is made of a process that cannot be seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
from tests.kit import say
from tests.server.serving import served

from jaato.errors import NotAllowed
from jaato.protocol.specs import Grant
from jaato.tools.permissions.gate import Policy
from jaato.tools.permissions.trust import Trust
from jaato.tools.processes.call_processes import find_call_above, find_calling_tool

SLEEP = [sys.executable, "-c", "import sys, time; print('up', flush=True); sys.stdin.read()"]


def started(*command: str, **options: object) -> subprocess.Popen[bytes]:
    """A process that waits until its input ends."""
    made: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
        list(command) or SLEEP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )
    assert made.stdout is not None
    assert made.stdout.readline() == b"up\n"
    return made


def test_nothing_shows_where_there_is_no_call() -> None:
    """This very process, a child of it, and the first of all."""
    assert find_calling_tool() is None
    with started() as process:
        assert find_call_above(process.pid) is None
        process.communicate()
    assert find_call_above(1) is None


def test_the_mark_shows_also_in_an_ancestor() -> None:
    """A process without it, below one that has it."""
    inner = f"import subprocess; subprocess.run({[*SLEEP]!r}, env={{}})"
    with started(sys.executable, "-c", inner, env={"JAATO_CALL": "x"}) as process:
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        found = find_call_above(int(child))
        assert found is not None
        assert f"process {process.pid} has JAATO_CALL" in found
        process.communicate()


@pytest.mark.parametrize("name", ["NOT_JAATO_CALL", "JAATO_CALLS"])
def test_a_variable_that_is_called_like_it_is_no_mark(name: str) -> None:
    """Only the whole name counts, not its text in another name or value."""
    with started(env={name: "JAATO_CALL=x"}) as process:
        assert find_call_above(process.pid) is None
        process.communicate()


def test_a_process_that_has_gone_is_not_taken_for_any() -> None:
    """Nothing can be said of a number that no process has."""
    with started() as process:
        process.communicate()
    with pytest.raises(ProcessLookupError):
        find_call_above(process.pid)
    with pytest.raises(ProcessLookupError):
        find_call_above(0)


def test_no_trust_and_no_permission_is_written_below_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a refusal lost: that only tightens."""
    monkeypatch.setenv("JAATO_CALL", "x")
    path = tmp_path / ".jaato" / "permissions.json"
    policy = Policy.load(path, workspace=tmp_path, state_dir=tmp_path / "state")
    allow = Grant(id="g1", effect="allow", tool="run", scope="always", workspace=str(tmp_path))
    with pytest.raises(NotAllowed, match="below a call"):
        policy.remember(allow)
    with pytest.raises(NotAllowed, match="below a call"):
        Trust(tmp_path / "state").add(path, b"{}")
    assert not path.exists()
    assert not (tmp_path / "state" / "trust.json").exists()


def test_who_cannot_be_seen_is_not_let_in(tmp_path: Path) -> None:
    """A process that connects and is gone before it was looked at: its connection, which another one has by then, gives
    nothing."""
    code = (
        "import os, socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
        "os.set_inheritable(s.fileno(), True)\nif os.fork(): os._exit(0)\n"
        "sys.stdin.readline()\ns.sendall(b'GET /health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')\n"
        "while data := s.recv(4096): sys.stdout.buffer.write(data)\n"
    )

    async def main() -> None:
        async with served(tmp_path, [say("x")]) as server:
            process = subprocess.Popen(
                [sys.executable, "-c", code, str(server.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            process.wait()
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.close()
            assert process.stdout is not None
            answer = await anyio.to_thread.run_sync(process.stdout.read)
            assert answer.startswith(b"HTTP/1.1 403"), answer
            assert b"not visible in /proc" in answer
            process.stdout.close()
            transport = httpx2.AsyncHTTPTransport(uds=str(server.path))
            async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
                assert (await client.get("/health")).status_code == 200

    anyio.run(main)
