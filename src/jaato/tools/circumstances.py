"""What a call is judged by beside the rules: the grants of the session and where they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jaato.protocol.specs import Grant, SandboxAccess, SandboxProfile
from jaato.tools.atomic import resolved
from jaato.tools.control_names import STANDARD, ControlNames
from jaato.tools.policy import Policy
from jaato.tools.policy_rules import ToolRules
from jaato.tools.shell_computed import computed_doubt
from jaato.tools.shell_parts import Analysis
from jaato.tools.shell_pattern import ShellPattern, shell_pattern

if TYPE_CHECKING:
    from jaato.tools.tool import Tool

READ_ONLY = "{name} may do more than read, and this session only reads (--read-only)"
PLAN = "{name} may do more than read, and nothing does before the user has approved a plan: make one, then call startPlan"
CONTROL = "it may change {found!r}, which decides what runs later, so only this one call can be allowed"


def none_enforced() -> frozenset[SandboxProfile]:
    """No profile can be enforced."""
    return frozenset()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a call is judged by: the policy, the session's grants, the workspace, directories that are control, and the
    profiles that a sandbox enforces here (found by the first question for them)."""

    policy: Policy
    grants: tuple[Grant, ...]
    workspace: Path
    protected: tuple[Path, ...] = ()
    names: ControlNames = STANDARD
    profiles: Callable[[], frozenset[SandboxProfile]] = none_enforced

    def can_enforce(self, access: SandboxAccess) -> bool:
        """Whether a process can be held to an access here."""
        return access.profile == "full" or access.profile in self.profiles()

    def only_reads(self, name: str) -> str | None:
        """Why nothing that does more than read may run now; None where it may."""
        if not self.policy.read_only:
            return None
        return (PLAN if self.policy.mode == "plan" else READ_ONLY).format(name=name)

    def whole(self, tool: Tool) -> Grant | None:
        """The grant of this session that covers every call of the tool."""
        return next((one for one in self.grants if covers_tool(one, tool) and here(one, self)), None)


def covers_tool(grant: Grant, tool: Tool) -> bool:
    """Whether a grant allows a tool whole, for a while."""
    return grant.shape is None and allows_for_a_while(grant, tool)


def allows_for_a_while(grant: Grant, tool: Tool) -> bool:
    """Whether a grant of this session allows something of a tool."""
    return grant.effect == "allow" and grant.tool == tool.name and grant.scope in ("turn", "idle", "session")


def patterns_of(grant: Grant, tool: Tool) -> list[ShellPattern]:
    """The patterns of a session's grant for shell commands."""
    if grant.effect != "allow" or grant.tool != tool.name or not grant.shape:
        return []
    if grant.scope not in ("turn", "idle", "session"):
        return []
    return [pattern for line in grant.shape.split("\n") if (pattern := shell_pattern(line))]


def here(grant: Grant, given: Circumstances) -> bool:
    """Whether a grant is for this workspace."""
    return grant.workspace is None or grant.workspace in (
        str(given.workspace),
        resolved(str(given.workspace)),
    )


def refused_by(grants: Iterable[Grant], tool: Tool) -> str | None:
    """A grant of this session that denies the tool."""
    denying = any(one.effect == "deny" and one.tool == tool.name and one.shape is None for one in grants)
    return "was refused for good" if denying else None


def refused_command(grants: Iterable[Grant], tool: Tool, analysis: Analysis) -> str | None:
    """A grant of this session that denies the command."""
    if any(one.shape is None for one in grants if one.effect == "deny" and one.tool in (tool.name, "run")):
        return "was refused for good"
    return refusals(grants, tool).denies_command(analysis)


def refusals(grants: Iterable[Grant], tool: Tool) -> ToolRules:
    """What grants of this session deny of commands, as rules."""
    shapes = [one.shape for one in grants if one.effect == "deny" and one.tool in (tool.name, "run")]
    lines = tuple(line for shape in shapes if shape for line in shape.split("\n"))
    return ToolRules(None, None, lines, (), (), (), ())


def forbids(tool: Tool, rules: ToolRules, given: Circumstances) -> bool:
    """Whether anything forbids some commands."""
    refused = any(one.effect == "deny" and one.tool in (tool.name, "run") for one in given.grants)
    return bool(refused or rules.deny_inner or rules.deny_arguments)


def hides(analysis: Analysis, tool: Tool, rules: ToolRules, given: Circumstances) -> str | None:
    """Why a rule that forbids commands cannot be held against all that this line runs; None without such a rule, or
    where all of it is plain to see."""
    if not forbids(tool, rules, given):
        return None
    doubt = computed_doubt(analysis)
    if doubt is not None:
        return f"{doubt}, so rules that forbid commands cannot be held against it"
    found = rules.mentions_command(analysis) or refusals(given.grants, tool).mentions_command(analysis)
    return None if found is None else f"an argument of it {found}"


def shown(command: str) -> str:
    """A command short enough for a message."""
    return command if len(command) <= 80 else f"{command[:77]}..."
