"""`jaato sandbox`: a command run by hand as the agent's are, or what it would see."""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from jaato.cli.arguments.values import directories_of, workspace_of
from jaato.cli.ending import OK, say
from jaato.cli.output.tables import print_json, print_line
from jaato.cli.output.terminal import visible
from jaato.errors import ConfigError, ToolError
from jaato.protocol.specs import SandboxAccess
from jaato.runtime.plugins.setup import sandbox_for
from jaato.runtime.policy_setup import sandbox_access
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.tools.permissions.access import PROFILES, READ_ONLY
from jaato.tools.processes.command import Command, CommandLimits, Ended
from jaato.tools.processes.environment import command_environment
from jaato.tools.processes.launcher import WardenClient

if TYPE_CHECKING:
    from jaato.settings import Settings
    from jaato.tools.processes.sandbox.sandbox import Sandbox

NOTHING_TO_OPEN = (
    "--allow-domain and --add-dir open something to commands that may write: add --profile workspace-write."
)
NO_BACKEND = "No sandbox works on this machine (sandbox_backend is {chosen}); `jaato doctor` says why. Nothing was run."
CHUNK_BYTES = 1 << 16
NOT_RUN = 126


def main(args: Namespace) -> int:
    """Run the command, or explain what it would see. Raises `ConfigError`, and `ToolError` where there is no sandbox."""
    workspace = workspace_of(args)
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words and not args.explain:
        raise ConfigError("Say what to run: jaato sandbox -- COMMAND…, or --explain what it would see.")
    if args.json and not args.explain:
        raise ConfigError("--json goes with --explain; the command's own output is printed as it is.")
    blueprint = SessionOptions(
        workspace=workspace, allow_domains=tuple(args.allow_domain), add_dirs=directories_of(args)
    )
    settings = settings_for(blueprint, workspace)
    access = access_of(args, blueprint, settings, workspace)
    sandbox = sandbox_for(workspace, settings, settings.state_dir)
    try:
        if args.explain:
            explain(args, sandbox, access)
            return OK
        if access.profile not in sandbox.profiles:
            raise ToolError(NO_BACKEND.format(chosen=settings["sandbox_backend"]))
        code: int = anyio.run(run, words, workspace, settings, sandbox, access)
        return code
    finally:
        sandbox.close()


def access_of(
    args: Namespace, blueprint: SessionOptions, settings: Settings, workspace: Path
) -> SandboxAccess:
    """What the command may reach, with what the settings open to every command that may write. Raises `ConfigError`."""
    if args.profile == "read-only":
        if args.allow_domain or args.add_dir:
            raise ConfigError(NOTHING_TO_OPEN)
        return READ_ONLY
    return msgspec.structs.replace(sandbox_access(blueprint, settings, workspace), profile="workspace-write")


async def run(
    words: list[str], workspace: Path, settings: Settings, sandbox: Sandbox, access: SandboxAccess
) -> int:
    """The command from start to end; gives its exit code."""
    launcher = WardenClient()
    try:
        with streams() as handed:
            command = Command(
                words,
                workspace,
                command_environment(settings.environ, (), {}),
                limits=CommandLimits(),
                show=show_error,
                streams=handed,
                confinement=await sandbox.confine(access, workspace, "by hand"),
            )
            ended = await command.run(launcher)
    finally:
        launcher.close()
    return code_of(ended, words[0])


@contextmanager
def streams() -> Iterator[tuple[int, int]]:
    """Input and output for the command. A terminal is never handed over: the command reads nothing, and what it prints is
    copied."""
    stdin = os.open(os.devnull, os.O_RDONLY) if is_terminal(0) else os.dup(0)
    copier: threading.Thread | None = None
    stdout = os.dup(1)
    if is_terminal(1):
        reading, writing = os.pipe()
        copier = threading.Thread(target=copy, args=(reading, stdout), daemon=True)
        copier.start()
    else:
        writing = stdout
    try:
        yield stdin, writing
    finally:
        os.close(stdin)
        os.close(writing)
        if copier is not None:
            copier.join()


def copy(reading: int, stdout: int) -> None:
    """Copy until the end."""
    try:
        while data := os.read(reading, CHUNK_BYTES):
            while data:
                data = data[os.write(stdout, data) :]
    except OSError:
        pass  # whoever read it has gone
    finally:
        os.close(reading)
        os.close(stdout)


def is_terminal(descriptor: int) -> bool:
    """Whether a standard stream is a terminal; one that is closed is none."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def show_error(text: str) -> None:
    """What the command writes to its errors."""
    sys.stderr.write(text)
    sys.stderr.flush()


def code_of(ended: Ended, program: str) -> int:
    """The exit code as a shell gives it; says so where the command could not be started."""
    if ended.reason == "failure":
        say(f"{visible(program)[:200]} could not be run: {ended.stuck[-1]}.")
        return NOT_RUN + (ended.stuck[-1] == os.strerror(2))
    if ended.code is None:
        raise ToolError("The command was stopped before it ended; nothing of it is running.")
    return ended.code if ended.code >= 0 else 128 - ended.code


def explain(args: Namespace, sandbox: Sandbox, access: SandboxAccess) -> None:
    """Print what the command would see; what is not named can be read and not changed."""
    plan, _cache = sandbox.plan(access, Path("/tmp"), sandbox.protected(access))  # noqa: S108 only its name is shown
    backend = sandbox.backend.name if sandbox.backend is not None else None
    profiles = sorted(sandbox.profiles)
    paths: dict[str, list[str]] = {
        "writable": list(plan.writable),
        "pinned": list(plan.pinned),
        "fixed": list(plan.fixed),
        "hidden": sorted((*plan.hidden_directories, *plan.hidden_files)),
    }
    if args.json:
        allowed = {"backend": backend, "profiles": profiles, "profile": access.profile}
        print_json({**allowed, "domains": list(access.domains), **paths})
        return
    network = f"through the proxy: {', '.join(access.domains)}" if access.domains else "nothing outside"
    rows = [
        (
            "back end",
            f"{backend} (enforces {', '.join(profiles)})" if backend else "none: nothing can be confined",
        ),
        ("profile", f"{access.profile}: {PROFILES[access.profile]}"),
        ("/tmp", "one of the session's own"),  # noqa: S108 only its name is shown
        ("network", f"the session's own loopback; {network}"),
        *[(name, visible(path)) for name, found in paths.items() for path in found],
    ]
    for name, text in rows:
        print_line(f"{name:<9} {text}")
