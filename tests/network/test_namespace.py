"""The network of a session, with real namespaces: what is shared in there, and that nothing leads out."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import time
import weakref
from contextvars import ContextVar
from pathlib import Path

import pytest
from tests.network.running import OUTSIDE, WRITE, Session, granted, web
from tests.processes import children

from jaato.errors import ToolError
from jaato.tools.permissions.access import READ_ONLY
from jaato.tools.processes.command import Command, CommandLimits
from jaato.tools.processes.launcher import WardenClient

SERVER = 'python3 -u -c \'import http.server as h; s = h.HTTPServer(("127.0.0.1", 8123), h.SimpleHTTPRequestHandler); '
SERVER += 'print("ready"); s.serve_forever()\''
GET = "curl -sS -m 5 http://127.0.0.1:8123/page"


def test_a_server_of_one_command_answers_the_next(session: Session) -> None:
    """A server that runs in the background is reached by a later command, also with another profile and from another
    plugin's launcher; not by a command of another session, nor from outside."""
    (session.workspace / "page").write_text("hello")

    async def main() -> None:
        async with session.background(SERVER, until="ready"):
            assert (await session.run(GET)).output == "hello"
            assert (await session.run(GET, READ_ONLY)).output == "hello"
            other = WardenClient()
            try:
                assert (await session.run(GET, READ_ONLY, launcher=other)).output == "hello"
            finally:
                other.close()
            assert (await session.run(GET, session="s2")).code == 7
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 8123), 1).close()

    asyncio.run(main())


TRIES = {
    "tcp": "s = socket.create_connection(('{host}', {tcp}), 3)",
    "udp": "s = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b'x', ('{host}', {udp}))",
    "abstract": "s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}')",
    "public": "s = socket.create_connection(('1.1.1.1', 53), 3)",
    "public udp": "s = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b'x', ('1.1.1.1', 53))",
    "dns": "s = socket.getaddrinfo('example.com', 80)",
    "raw": "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "vsock": "s = socket.socket(socket.AF_VSOCK); s.connect((2, 1))",
}


@pytest.mark.parametrize(
    "access", [READ_ONLY, WRITE, granted("pypi.org")], ids=["read-only", "write", "granted"]
)
def test_nothing_leads_out(session: Session, access: object) -> None:
    """TCP, UDP, DNS, raw and abstract sockets of the machine are out of reach in every profile, with a grant too;
    the same lines reach the servers of this test when there is no sandbox."""
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0jaato-test-{os.getpid()}")
    abstract.listen()
    tcp = socket.create_server((OUTSIDE, 0))
    udp = socket.socket(type=socket.SOCK_DGRAM)
    udp.bind((OUTSIDE, 0))
    udp.setblocking(False)
    filled = {
        name: line.format(
            host=OUTSIDE, tcp=tcp.getsockname()[1], udp=udp.getsockname()[1], name=f"jaato-test-{os.getpid()}"
        )
        for name, line in TRIES.items()
    }
    program = "import socket\n"
    for name, line in filled.items():
        program += f"try:\n    {line}\n    print({name!r}, 'out')\nexcept OSError: pass\n"
    (session.workspace / "try.py").write_text(program)

    async def main() -> tuple[str, str]:
        free = (await session.run("python3 try.py", None)).output
        reached = udp.recv(10)
        assert reached == b"x"
        held = (await session.run("python3 try.py; echo done", access)).output  # type: ignore[arg-type]
        return free, held

    try:
        free, held = asyncio.run(main())
        assert {"tcp out", "udp out", "abstract out"} <= set(free.splitlines())
        assert set(held.splitlines()) - {"udp out"} == {
            "done"
        }  # what is sent to the own loopback arrives nowhere
        with pytest.raises(BlockingIOError):
            udp.recv(10)
    finally:
        for one in (abstract, tcp, udp):
            one.close()


def test_no_descriptor_reaches_the_command(session: Session) -> None:
    """A joined command has its standard streams and no descriptor of a namespace or of the listener."""

    async def main() -> str:
        return (
            await session.run(
                "ls -l /proc/self/fd | grep -c -e 'net:' -e 'user:' -e socket: ; ls /proc/self/fd"
            )
        ).output

    none, *listed = asyncio.run(main()).split()
    assert none == "0"
    assert len(listed) == 4  # the fourth is that of the listing


def test_the_network_cannot_be_changed_from_inside(session: Session) -> None:
    """A command has no capability in the namespaces it was moved into: no interface, no route, no way back out."""
    tries = (
        "ip link set lo down",
        "ip addr add 10.9.9.9/8 dev lo",
        "nsenter --net=/proc/1/ns/net true",
        "unshare --user --net true",
        "nsenter --user=/proc/self/ns/user true",
    )

    async def main() -> None:
        for line in tries:
            assert (await session.run(line)).code != 0, line
        assert (await session.run("grep CapEff /proc/self/status")).output.split()[1] == "0" * 16
        assert (
            await session.run("python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 3128))'")
        ).code != 0

    asyncio.run(main())


def test_a_killed_warden_takes_no_network_along(session: Session) -> None:
    """The namespace is held by jaato: after the warden was killed the next command still finds the same one."""
    (session.workspace / "page").write_text("hello")
    other = WardenClient()

    async def main() -> None:
        async with session.background(SERVER, until="ready", launcher=other):
            before = (await session.run("readlink /proc/self/ns/net")).output
            os.kill(session.launcher.warden_pid, 9)
            assert (await session.run(GET)).output == "hello"
            assert (await session.run("readlink /proc/self/ns/net")).output == before
            os.kill(session.launcher.warden_pid, 19)
            assert (await session.run("true", session="s3")).code == 0

    try:
        asyncio.run(main())
    finally:
        other.close()


def test_commands_that_start_together_share_one_network(session: Session) -> None:
    """Ten first commands at once find one namespace, not one each."""

    async def main() -> set[str]:
        lines = [session.run("readlink /proc/self/ns/net", session="s9") for _ in range(10)]
        return {one.output for one in await asyncio.gather(*lines)}

    assert len(asyncio.run(main())) == 1


def test_the_end_of_a_session_leaves_nothing(tmp_path: Path) -> None:
    """Until the first confined command there is no descriptor, no thread and no process; after the end of the session none
    is left, also when a tunnel was open."""
    folder = tmp_path / "site"
    folder.mkdir()
    with web(folder) as port:
        session = Session(tmp_path)
        _ = session.sandbox.backend
        fds, threads, processes = descriptors(), proxy_threads(), children(zombies=True)
        given = namespaces()

        async def main() -> None:
            await session.run("true", None)
            assert proxy_threads() <= threads
            assert not namespaces() - given
            line = f"exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {OUTSIDE}:{port} HTTP/1.1\\r\\nProxy-Authorization: "
            line += (
                'Basic %s\\r\\n\\r\\n\' $(printf %s "${HTTP_PROXY#http://}" | sed s/@.*// | base64 -w0) >&3; '
            )
            line += "head -c 12 <&3; sleep 60"
            async with session.background(line, granted(f"{OUTSIDE}:{port}"), until="HTTP/1.1 200"):
                assert len(namespaces() - given) == 2
                session.sandbox.end_session("s1")
                assert not namespaces() - given
                with pytest.raises(ToolError, match="network"):
                    raise await failure_of(session)

        asyncio.run(main())
        session.close()
        assert proxy_threads() <= threads
        assert children(zombies=True) <= processes
        assert not {
            one for one in descriptors() if one[1] not in {old[1] for old in fds} and "socket" in one[1]
        }
        assert not namespaces() - given


async def failure_of(session: Session) -> ToolError:
    """What a command ends with whose session is over between its confinement and its start."""
    confinement = await session.sandbox.confine(WRITE, session.workspace, "s4", session.launcher)
    session.sandbox.end_session("s4")
    command = Command(
        ["true"], session.workspace, {}, limits=CommandLimits(), show=lambda _: None, confinement=confinement
    )
    ended = await command.run(session.launcher)
    assert ended.reason == "failure"
    return ToolError(" ".join(ended.stuck))


def descriptors() -> set[tuple[str, str]]:
    """The descriptors of this process and what they are."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
        except OSError:
            continue
    return found


def namespaces() -> set[str]:
    """The namespaces that this process has a descriptor of; earlier tests may have left some to the garbage collector."""
    return {target for _, target in descriptors() if target.startswith(("net:", "user:"))}


def proxy_threads() -> int:
    """How many threads serve proxies."""
    return sum(thread.name == "jaato-proxy" for thread in threading.enumerate())


def test_many_sessions_share_one_thread(session: Session) -> None:
    """The proxies of all sessions of a process run on one thread."""

    given = namespaces()

    async def main() -> None:
        for number in range(5):
            await session.run("true", session=f"n{number}")
        assert proxy_threads() == 1
        assert len(namespaces() - given) == 10

    asyncio.run(main())


def test_who_forgets_a_sandbox_leaves_nothing(tmp_path: Path) -> None:
    """A program that embeds jaato and closes nothing keeps no namespace, thread or process, nor what its calls had, once it
    has let go of its objects."""
    having: ContextVar[Session | None] = ContextVar("having", default=None)
    threads, processes = proxy_threads(), children(zombies=True)
    given = namespaces()

    async def main() -> weakref.ref[Session]:
        session = Session(tmp_path)
        having.set(session)
        await session.run("true")
        assert len(namespaces() - given) == 2
        return weakref.ref(session)

    gone = asyncio.run(main())
    until = time.monotonic() + 60
    # The worker thread of the loop may be the last to hold the context, and so the session: what that had, the warden too,
    # then ends beside this thread.
    while not (
        gone() is None
        and not namespaces() - given
        and proxy_threads() <= threads
        and children(zombies=True) <= processes
    ):
        assert time.monotonic() < until, (gone(), namespaces(), proxy_threads(), children(zombies=True))
        gc.collect()
        time.sleep(0.01)
