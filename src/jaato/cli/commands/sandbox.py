"""`jaato sandbox`: run a command in the sandbox, or show what the sandbox allows and hides."""

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
from jaato.cli.exit_codes import OK, print_message
from jaato.cli.output.console import print_json, print_line, visible
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

NEEDS_WRITE = "--allow-domain and --add-dir need --profile workspace-write."
NO_BACKEND = "No sandbox works on this machine (sandbox_backend is {chosen}); `jaato doctor` says why. Nothing was run."
CHUNK_BYTES = 1 << 16
NOT_RUN = 126


def main(args: Namespace) -> int:
    """Run the command, or explain the sandbox. Raises `ConfigError`, and `ToolError` without a sandbox."""
    workspace = workspace_of(args)
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words and not args.explain:
        raise ConfigError("There is no command: jaato sandbox -- COMMAND…, or pass --explain.")
    if args.json and not args.explain:
        raise ConfigError("--json needs --explain; the output of a command is printed unchanged.")
    options = SessionOptions(
        workspace=workspace, allow_domains=tuple(args.allow_domain), add_dirs=directories_of(args)
    )
    settings = settings_for(options, workspace)
    access = access_of(args, options, settings, workspace)
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


def access_of(args: Namespace, options: SessionOptions, settings: Settings, workspace: Path) -> SandboxAccess:
    """What the command may access, including what the settings allow to commands that may write. Raises `ConfigError`."""
    if args.profile == "read-only":
        if args.allow_domain or args.add_dir:
            raise ConfigError(NEEDS_WRITE)
        return READ_ONLY
    return msgspec.structs.replace(sandbox_access(options, settings, workspace), profile="workspace-write")


async def run(
    words: list[str], workspace: Path, settings: Settings, sandbox: Sandbox, access: SandboxAccess
) -> int:
    """Run the command and return its exit code."""
    launcher = WardenClient()
    try:
        with streams() as given:
            command = Command(
                words,
                workspace,
                command_environment(settings.environ, (), {}),
                limits=CommandLimits(),
                show=show_error,
                streams=given,
                confinement=await sandbox.confine(access, workspace, "by hand"),
            )
            ended = await command.run(launcher)
    finally:
        launcher.close()
    return code_of(ended, words[0])


@contextmanager
def streams() -> Iterator[tuple[int, int]]:
    """Stdin and stdout for the command. It gets no terminal: stdin is then /dev/null, and its output is copied."""
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
    """Copy until end of file."""
    try:
        while data := os.read(reading, CHUNK_BYTES):
            while data:
                data = data[os.write(stdout, data) :]
    except OSError:
        pass  # the reader exited
    finally:
        os.close(reading)
        os.close(stdout)


def is_terminal(descriptor: int) -> bool:
    """Whether a standard stream is a terminal; False for a closed one."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def show_error(text: str) -> None:
    """Print the command's stderr output."""
    sys.stderr.write(text)
    sys.stderr.flush()


def code_of(ended: Ended, program: str) -> int:
    """The exit code, as in a shell; prints a message when the command could not be started."""
    if ended.reason == "failure":
        print_message(f"{visible(program)[:200]} could not be run: {ended.stuck[-1]}.")
        return NOT_RUN + (ended.stuck[-1] == os.strerror(2))
    if ended.code is None:
        raise ToolError("The command was killed before it ended; none of its processes is running.")
    return ended.code if ended.code >= 0 else 128 - ended.code


def explain(args: Namespace, sandbox: Sandbox, access: SandboxAccess) -> None:
    """Print what the command could access; everything else is read-only."""
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
            f"{backend} (enforces {', '.join(profiles)})"
            if backend
            else "none: commands cannot be sandboxed",
        ),
        ("profile", f"{access.profile}: {PROFILES[access.profile]}"),
        ("/tmp", "private to the session"),  # noqa: S108 only its name is shown
        ("network", f"private loopback; {network}"),
        *[(name, visible(path)) for name, found in paths.items() for path in found],
    ]
    for name, text in rows:
        print_line(f"{name:<9} {text}")
