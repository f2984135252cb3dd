"""The context of a permission decision: session, directories, draft plan, and the paths in a call's arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.specs import Grant, SandboxAccess, SandboxProfile
from jaato.tools.filesystem.atomic import resolve_path
from jaato.tools.filesystem.control_files import (
    MAX_PATH_CHARS,
    STANDARD,
    ControlNames,
    Tier,
    control_path,
    fold_name,
    holds_workspace,
)
from jaato.tools.permissions.policy import Policy
from jaato.tools.permissions.rules import ToolRules, command_patterns

if TYPE_CHECKING:
    from jaato.tools.shell.parser import Analysis
    from jaato.tools.shell.patterns import ShellPattern
    from jaato.tools.tool import Tool

MENTION = lazy_pattern(
    r"\.(?:jaato|mcp\.json|git/|git\b(?![-\w.])|gitmodules|gitconfig|bashrc|bash_(?:profile|login|logout|aliases)|"
    r"profile\b|z(?:shrc|shenv|profile|login|logout)|kshrc|mkshrc|[t]?cshrc|inputrc|envrc|vscode\b|ssh/|"
    r"config/(?:git|jaato|fish))|state/jaato|hooks/(?:pre|post|commit|prepare|applypatch|update|fsmonitor)|"
    r"core\.(?:hooksPath|fsmonitor|sshCommand|editor|pager)|etc/profile|bash\.bashrc",
    re.IGNORECASE,
)
"""Text that names a control path, inside a command or code."""

CONTENT_KEYS = frozenset(
    "content new_content old new text old_string new_string prologue epilogue replacement replace "
    "body message "
    "description task prompt query question".split()
)
PATCHED = lazy_pattern(r"^(?:\+\+\+|---|rename to|copy to) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)
"""A line of a unified diff that names a file."""
MAX_STRINGS = 1_000


def find_control_path(
    arguments: dict[str, Any],
    place: str,
    executes: bool,
    protected: Iterable[Path],
    names: ControlNames = STANDARD,
) -> str | None:
    """Which control path a call of a writing or executing tool may change, judged by its arguments.

    The second tier counts for tools that write; what is executed runs in the sandbox and may write it.
    """
    if executes and all(is_plain_argument(key, value) for key, value in arguments.items()):
        return None
    protected = tuple(protected)
    for count, (key, text) in enumerate(argument_strings(arguments)):
        if count >= MAX_STRINGS:
            return "more paths than are looked at"
        if executes:
            if (found := MENTION.search(text)) is not None:
                return found[0]
            if key not in PATH_KEYS:
                continue
        elif key in CONTENT_KEYS or ("\n" in text and key not in PATH_KEYS):
            continue
        tiers: Tier = 1 if executes else 2
        if found_path := control_path(text, place, protected, names=names, tiers=tiers):
            return found_path
        if key in DESTINATIONS and brings_control(text, names):
            return text
        if key in ("path", "source_path", "destination_path") and holds_workspace(text, place, place):
            return text
    return None


def brings_control(path: str, names: ControlNames) -> bool:
    """Whether a directory that is moved to this path may bring control files: `.github`, `.venv`."""
    parts = [fold_name(part) for part in path.split("/") if part not in ("", ".")]
    return bool(parts) and (names.first.holds(parts) or names.second.holds(parts))


def is_inside_workspace(arguments: dict[str, Any], place: str) -> bool:
    """Whether every path in the arguments of a file tool, and every file that a patch names, lies in the workspace."""
    root = resolve_path(place)
    top = arguments.get("path")
    paths = [text for key, text in argument_strings(arguments) if key in PATH_KEYS]
    for key, text in argument_strings(arguments):
        if key == "patch":
            below = top if isinstance(top, str) else "."
            paths += [
                os.path.join(below, name.strip('"')) for name in PATCHED.findall(text) if name != "/dev/null"
            ]
    return all(
        len(path) <= MAX_PATH_CHARS
        and "\0" not in path
        and not path.startswith("~")
        and f"{resolve_path(os.path.join(place, path))}/".startswith(f"{root}/")
        for path in paths
    )


def is_plain_argument(key: str, value: Any) -> bool:
    """Whether an argument of an executing tool cannot name a path: a fast check for the common case."""
    if isinstance(value, str):
        return "." not in value and "/" not in value and key not in PATH_KEYS
    return not isinstance(value, dict | list | tuple)


DESTINATIONS = frozenset(("destination_path", "destination", "target", "dest"))
PATH_KEYS = frozenset(
    "path paths file filename file_path filepath source_path destination_path destination target dest "
    "dir directory "
    "root output output_path uri".split()
)


def argument_strings(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every string of an argument value with the name it stands under."""
    if isinstance(value, str):
        yield key, value
    elif depth < 20 and isinstance(value, dict):
        for name, item in value.items():
            yield from argument_strings(item, str(name), depth + 1)
    elif depth < 20 and isinstance(value, list | tuple):
        for item in value:
            yield from argument_strings(item, key, depth + 1)


READ_ONLY = "{name} may do more than read, and this session only reads (--read-only)"
PLAN = "{name} may do more than read, and nothing does before the user has approved a plan: make one, then call startPlan"
CONTROL = "it may change {found!r}, which decides what runs later, so only this one call can be allowed"


def none_enforced() -> frozenset[SandboxProfile]:
    """No profile can be enforced."""
    return frozenset()


class PermissionContext(msgspec.Struct, frozen=True):
    """The input of a decision: the policy, the session's grants, the workspace, protected directories, and the profiles that
    a sandbox enforces here (lazy)."""

    policy: Policy
    grants: tuple[Grant, ...]
    workspace: Path
    protected: tuple[Path, ...] = ()
    names: ControlNames = STANDARD
    profiles: Callable[[], frozenset[SandboxProfile]] = none_enforced

    def can_enforce(self, access: SandboxAccess) -> bool:
        """Whether a sandbox here can enforce an access."""
        return access.profile == "full" or access.profile in self.profiles()

    def explain_read_only(self, name: str) -> str | None:
        """Why only reading is allowed now; None if more is."""
        if not self.policy.read_only:
            return None
        return (PLAN if self.policy.mode == "plan" else READ_ONLY).format(name=name)

    def find_tool_grant(self, tool: Tool) -> Grant | None:
        """The grant of this session that covers every call of the tool."""
        for one in self.grants:
            if one.shape is None and allows_for_a_while(one, tool) and is_for_workspace(one, self):
                return one
        return None


def allows_for_a_while(grant: Grant, tool: Tool) -> bool:
    """Whether a grant of this session allows something of a tool."""
    return grant.effect == "allow" and grant.tool == tool.name and grant.scope in ("turn", "idle", "session")


def patterns_of(grant: Grant, tool: Tool) -> list[ShellPattern]:
    """The patterns of a session's grant for shell commands."""
    if grant.effect != "allow" or grant.tool != tool.name or not grant.shape:
        return []
    if grant.scope not in ("turn", "idle", "session"):
        return []
    return command_patterns(grant.shape.split("\n"))


def is_for_workspace(grant: Grant, given: PermissionContext) -> bool:
    """Whether a grant is for this workspace."""
    return grant.workspace is None or grant.workspace in (
        str(given.workspace),
        resolve_path(str(given.workspace)),
    )


def find_refusal(grants: Iterable[Grant], tool: Tool) -> str | None:
    """A grant of this session that denies the tool."""
    denying = any(one.effect == "deny" and one.tool == tool.name and one.shape is None for one in grants)
    return "was refused for good" if denying else None


def find_command_refusal(grants: Iterable[Grant], tool: Tool, analysis: Analysis) -> str | None:
    """A grant of this session that denies the command."""
    if any(one.shape is None for one in grants if one.effect == "deny" and one.tool in (tool.name, "run")):
        return "was refused for good"
    return refusals(grants, tool).denies_command(analysis)


def refusals(grants: Iterable[Grant], tool: Tool) -> ToolRules:
    """The commands that grants of this session deny, as rules."""
    shapes = [one.shape for one in grants if one.effect == "deny" and one.tool in (tool.name, "run")]
    lines = tuple(line for shape in shapes if shape for line in shape.split("\n"))
    return ToolRules(None, None, lines, (), (), (), ())


def has_command_denials(tool: Tool, rules: ToolRules, given: PermissionContext) -> bool:
    """Whether a rule or grant denies some commands."""
    refused = any(one.effect == "deny" and one.tool in (tool.name, "run") for one in given.grants)
    return bool(refused or rules.deny_inner or rules.deny_arguments)


def uncheckable_reason(
    analysis: Analysis, tool: Tool, rules: ToolRules, given: PermissionContext
) -> str | None:
    """Why deny rules cannot be checked against everything that this line runs; None without such rules, or if they can."""
    if not has_command_denials(tool, rules, given):
        return None
    from jaato.tools.shell.indirection import find_indirection

    doubt = find_indirection(analysis)
    if doubt is not None:
        return f"{doubt}, so rules that forbid commands cannot be held against it"
    found = rules.mentions_command(analysis) or refusals(given.grants, tool).mentions_command(analysis)
    return None if found is None else f"an argument of it {found}"


def shorten_command(command: str) -> str:
    """A command short enough for a message."""
    return command if len(command) <= 80 else f"{command[:77]}..."
