"""Daemons that are started by the hundred: a process that has loaded everything, and forks for each of them.

What runs in the forked process is the whole server: store, lock, Unix socket, uvicorn. Run as a program this reads lines of
JSON `{"home", "die_at"}` from stdin and begins a server for each; it prints `{"home", "pid", "what"}` when one is ready, and
when one has ended with its `status` and, unless it was killed, the boundaries it has passed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace
from tests.kill.fuse import FUSE
from tests.kill.script import ALLOWED, TOOLS, Player

from jaato.agent.bus import Bus
from jaato.runtime.plugins.adapter import Toolset
from jaato.runtime.plugins.setup import create_registry
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.server.app import ServerOptions
from jaato.server.daemon import serve
from jaato.storage.leases import Leases
from jaato.storage.sqlite import SqliteStore
from jaato.tools.tool import tool_from

SOCKET = "run/jaato.sock"


def tell(**said: Any) -> None:
    """One line to whoever started this program; short enough to be whole."""
    os.write(1, json.dumps(said).encode() + b"\n")


def mined() -> None:
    """Death may come before and after each commit, and after each event was shown."""

    def around(kind: Any, name: str) -> None:
        inner = getattr(kind, name)

        def outer(*args: Any, **options: Any) -> Any:
            FUSE.burn()
            done = inner(*args, **options)
            FUSE.burn()
            return done

        setattr(kind, name, outer)

    for name in ("create", "append", "fork"):
        around(SqliteStore, name)
    around(Leases, "take")
    publish: Any = Bus.publish

    def published(bus: Bus, event: Any) -> None:
        publish(bus, event)
        if event.durable:
            FUSE.burn()

    setattr(Bus, "publish", published)  # noqa: B010 as the others are


async def daemon(home: Path) -> None:
    """The server of this home, until it is stopped."""
    base = SessionOptions(
        provider=Player(),
        model="script",
        allow=ALLOWED,
        state_dir=home / "state",
        environ={"HOME": str(home), "PATH": "/usr/bin:/bin", "JAATO_DEFERRED_TOOLS": "0"},
    )
    work, pid = home / "work", os.getpid()
    registry = create_registry(work, settings_for(replace(base, workspace=work), work), "script", base)
    registry.add_toolset(Toolset("effects", None, tools=[tool_from(made, "effects") for made in TOOLS]))
    base = replace(base, registry=registry)
    await serve(
        home / SOCKET,
        (),
        ServerOptions(base=base),
        lambda _: tell(home=str(home), pid=pid, what="ready"),
    )
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] != "tests")
    (home / "modules").write_text("\n".join(loaded))
    tell(home=str(home), pid=pid, what="counted", count=FUSE.burnt)


def begin(home: Path, die_at: int, log: str) -> int:
    """Fork a server; its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        errors = os.open(home / log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(errors, 2)
        os.environ.clear()  # noqa: TID251 the forked process begins as a new one would
        os.environ.update(HOME=str(home), PATH="/usr/bin:/bin")  # noqa: TID251 as above
        FUSE.burnt, FUSE.die_at = 0, die_at
        anyio.run(daemon, home)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def load(names: list[str]) -> None:
    """Load what the first server has needed, once for all that follow."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            continue
    gc.collect()
    gc.freeze()


def main() -> None:
    """Begin servers until stdin ends; then end those that are left."""
    mined()
    inward, outward = os.pipe()
    os.set_blocking(outward, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(outward)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(inward, selectors.EVENT_READ)
    homes: dict[int, str] = {}
    held = b""
    while True:
        for key, _ in selector.select():
            if key.fd == inward:
                os.read(inward, 4096)
                for pid, status in ended():
                    tell(home=homes.pop(pid), pid=pid, what="ended", status=status)
                continue
            data = os.read(0, 65536)
            if not data:
                for pid in homes:
                    os.kill(pid, signal.SIGKILL)
                return
            *lines, held = (held + data).split(b"\n")
            for line in lines:
                told = json.loads(line)
                if "load" in told:
                    load(told["load"])
                    tell(what="loaded", home="")
                else:
                    homes[begin(Path(told["home"]), told["die_at"], "server.log")] = told["home"]


def ended() -> list[tuple[int, int]]:
    """The children that have ended, and how."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
