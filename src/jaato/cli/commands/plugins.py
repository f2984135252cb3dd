"""`jaato plugins`: list plugins, trust those of a workspace, check your own."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaato.cli.arguments.values import clean_text, workspace_of
from jaato.cli.output.console import (
    print_json,
    print_line,
    print_records,
    print_rows,
    size_text,
)
from jaato.cli.repl.questions import confirm_now
from jaato.errors import ConfigError
from jaato.runtime.plugins.workspace import WorkspacePlugin, find_workspace_plugins
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.settings import Settings
from jaato.settings.budgets import format_count
from jaato.tools.permissions.trust import Trust

SHOWN_FILES = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One plugin in the list."""

    name: str
    standing: str
    source: str
    detail: str = ""
    digest: str | None = None


def main(args: Namespace) -> int:
    """Run one action."""
    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    trust = Trust(settings.state_dir)
    match args.action:
        case "trust":
            return trust_plugin(args, find_plugin(args, workspace, trust), trust)
        case "untrust":
            tree = find_plugin(args, workspace, trust).tree
            trust.remove(tree.path)
            print_line(f"{tree.name} is no longer trusted and is not loaded")
        case "check":
            return check(args, workspace, settings)
        case _:
            list_plugins(args, workspace, settings, trust)
    return 0


def find_plugin(args: Namespace, workspace: Path, trust: Trust) -> WorkspacePlugin:
    """The workspace plugin of this name. Raises `ConfigError`."""
    found = find_workspace_plugins(workspace, trust)
    name = (clean_text(args.name) or "").removesuffix(".py")
    for one in found:
        if one.tree.name == name:
            return one
    known = ", ".join(one.tree.name for one in found) or "none"
    raise ConfigError(f"{workspace}/.jaato/plugins has no plugin {name!r}; it has {known}.")


def trust_plugin(args: Namespace, one: WorkspacePlugin, trust: Trust) -> int:
    """Show the files of a plugin, ask, and trust exactly these bytes."""
    tree = one.tree
    if one.standing == "unusable":
        raise ConfigError(f"The plugin {tree.name} {tree.problem}, so it cannot be trusted.")
    print_line(f"{tree.name}  {tree.path}")
    print_line(f"{tree.digest}  {format_count(len(tree.files), 'file')}, {size_text(tree.size_bytes)}")
    shown = sorted(tree.files.items())[:SHOWN_FILES]
    print_rows((f"  {path}", size_text(len(data))) for path, data in shown)
    if len(tree.files) > SHOWN_FILES:
        print_line(f"  and {len(tree.files) - SHOWN_FILES} more")
    if one.standing == "trusted":
        print_line("It is already trusted.")
        return 0
    print_line("It runs with all your rights, in this process. After any change it must be trusted again.")
    if not args.yes:
        answer = confirm_now("Trust it?")
        if answer is None:
            raise ConfigError("There is no terminal to confirm it; review the files, then pass --yes.")
        if not answer:
            print_line("Nothing was changed.")
            return 1
    trust.add(tree.path, tree.content)
    print_line(f"trusted {tree.name}")
    return 0


def list_plugins(args: Namespace, workspace: Path, settings: Settings, trust: Trust) -> None:
    """List all plugins, and why one is not loaded."""
    from jaato.runtime.plugins.setup import create_registry

    registry = create_registry(
        workspace, settings, settings["model"] or "", SessionOptions(workspace=workspace)
    )
    try:
        rows = rows_of(registry, find_workspace_plugins(workspace, trust), settings)
    finally:
        registry.shutdown()
    print_records(rows, lambda row: (row.name, row.standing, row.source, row.detail), as_json=args.json)


def rows_of(registry: Any, found: list[WorkspacePlugin], settings: Settings) -> list[Row]:
    """The rows of the list, by source."""
    from jaato.abc.plugin import ENTRY_POINT_GROUPS
    from jaato.plugins import BUILTIN
    from jaato.runtime.plugins.discovery import BUILTIN_STRATEGIES, entry_points_of

    rows: list[Row] = []

    def add(name: str, source: str, note: str = "") -> None:
        problem = registry.problems.get(name, "")
        noticed = "; ".join(registry.noticed.get(name, []))
        toolset = registry.toolset(name)
        standing = "off" if name in registry.disabled else "broken" if problem else "on"
        if name in registry.list_skipped_plugins():
            standing, note = "skipped", "needs another model"
        tools = format_count(len(toolset.tools), "tool") if toolset is not None else note
        rows.append(Row(name, standing, source, problem or "; ".join(filter(None, [tools, noticed]))))

    for name in BUILTIN:
        add(name, "jaato")
    for name in BUILTIN_STRATEGIES:
        add(name, "jaato", "GC strategy")
    for kind in ("tool", "gc"):
        for point in entry_points_of(ENTRY_POINT_GROUPS[kind]):
            where = point.dist.name if point.dist is not None else point.value
            if point.name not in {row.name for row in rows}:
                add(point.name, f"package {where}", "GC strategy" if kind == "gc" else "")
    for name in registry.modules.files(settings.config_dir / "plugins"):
        add(name, str(settings.config_dir / "plugins"))
    for one in found:
        tree = one.tree
        standing: str = one.standing if one.standing != "trusted" else "on"
        standing = "off" if tree.name in registry.disabled else standing
        problem = registry.problems.get(tree.name, "") if one.standing == "trusted" else one.warning
        if problem and one.standing == "trusted":
            standing = "broken"
        rows.append(Row(tree.name, standing, str(tree.path), problem, None if tree.problem else tree.digest))
    return rows


def check(args: Namespace, workspace: Path, settings: Settings) -> int:
    """Run the conformance checks on a plugin; the exit code is 1 when one fails."""
    from jaato.testing import Report, check_plugin
    from jaato.testing.plugin import plugin_loader

    report: Report = check_plugin(plugin_loader(clean_text(args.name) or "", workspace, settings))
    if args.json:
        print_json(report.document())
    else:
        print_line(str(report))
    return 0 if report.ok else 1
