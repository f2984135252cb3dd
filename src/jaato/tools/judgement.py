"""One call held against the rules: blacklist, control paths, whitelist, grants, defaults, in this order."""

from __future__ import annotations

import functools
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jaato.tools.circumstances import (
    CONTROL,
    READ_ONLY,
    Circumstances,
    certain,
    here,
    patterns_of,
    refused_by,
    refused_command,
    shown,
)
from jaato.tools.policy import Policy
from jaato.tools.policy_rules import SHELL_TOOLS, TYPED_TOOLS, ToolRules
from jaato.tools.shell_control import control_doubt
from jaato.tools.shell_parse import analyse
from jaato.tools.shell_parts import Analysis
from jaato.tools.shell_policy import ShellVerdict, judge
from jaato.tools.touches import control_argument
from jaato.tools.typed import judge_input
from jaato.tools.verdict import Verdict
from jaato.tools.waypoints import RESTORING, judge_restore, previews

if TYPE_CHECKING:
    from jaato.tools.call import Call
    from jaato.tools.tool import Tool

PLAIN_PROGRAM = re.compile(r"[A-Za-z0-9_.+/-]+")


def judge_call(call: Call, tool: Tool, given: Circumstances) -> Verdict:
    """What becomes of a call without asking anyone. Bounded in time for any arguments; never raises."""
    verdict = judge_tool(call, tool, given)
    if tool.remote is None or not (changed := tool.remote.changed(call)):
        return verdict
    verdict = doubted(verdict, tool, changed, given.policy)
    if verdict.effect == "allow":
        tool.remote.overlook(call)
    return verdict


def doubted(verdict: Verdict, tool: Tool, changed: str, policy: Policy) -> Verdict:
    """The verdict about a tool that is another than when it was allowed: what allowed it was said of the one before."""
    if verdict.effect == "deny" or (verdict.effect == "allow" and policy.default == "allow"):
        return verdict
    assert tool.remote is not None
    where, accepting = tool.remote.place, tool.remote.accepting
    remedy = f"Accept the change with `{accepting}`, or by answering where someone can be asked."
    reason = f"{tool.name} of {where} has changed since it was last allowed ({changed})"
    if verdict.effect == "ask":
        return replace(verdict, reason=f"{verdict.reason}; {reason}", remedy=remedy)
    if policy.default == "deny":
        return Verdict(
            "deny", "default", f"{reason}, and the default is deny; `{accepting}` accepts the change"
        )
    return Verdict("ask", "default", reason, shape_of_tool(tool), remedy=remedy)


def judge_tool(call: Call, tool: Tool, given: Circumstances) -> Verdict:
    """The verdict by the rules, the grants and the default."""
    rules = given.policy.rules_for(tool)
    if rules.denied is not None:
        return Verdict("deny", "blacklist", f"{tool.name} is in the blacklist ({rules.denied})", fixed=True)
    argument = SHELL_TOOLS.get(tool.name)
    if tool.name in TYPED_TOOLS:
        return judge_input(call, tool, rules, given)
    if argument is not None:
        return judge_shell(command_of(call.arguments, argument), call, tool, rules, given)
    place = str(given.workspace)
    denied = None if rules.by_name_only else rules.denies(call.arguments, main_argument(tool), place)
    if denied is None and given.grants:
        denied = refused_by(given.grants, tool)
    if denied is not None:
        return Verdict("deny", "blacklist", f"{tool.name} {denied}")
    if given.policy.locked is not None and not tool.auto_approved:
        return Verdict("deny", "policy_invalid", given.policy.locked)
    access = tool.spec.access
    if tool.name == RESTORING and previews(call):
        return Verdict("allow", "default", f"{tool.name} only shows what it would do")
    if given.policy.read_only and access != "read" and not tool.auto_approved:
        return Verdict("deny", "read_only", READ_ONLY.format(name=tool.name), fixed=rules.by_name_only)
    if access in ("write", "execute") and not tool.auto_approved and call.arguments:
        found = control_argument(call.arguments, place, access == "execute", given.protected)
        if found is not None:
            return Verdict(
                "ask", "control_path", CONTROL.format(found=found), shape_of_tool(tool), lasting=False
            )
    if tool.name == RESTORING and given.policy.default != "deny" and (owned := judge_restore(call)):
        return owned
    fixed = rules.by_name_only and access in ("read", "network") and tool.remote is None
    return by_rules(call, tool, rules, given, fixed) or by_default(tool, given.policy, fixed)


def by_rules(call: Call, tool: Tool, rules: ToolRules, given: Circumstances, fixed: bool) -> Verdict | None:
    """The whitelist and the grants."""
    if rules.allowed is not None:
        return whitelisted(tool.name, rules.allowed, fixed)
    if not rules.by_name_only:
        allowed = rules.allows(call.arguments, main_argument(tool), str(given.workspace))
        if allowed is not None:
            return Verdict("allow", "whitelist", f"{tool.name} is covered by {allowed}")
    grant = given.whole(tool)
    return Verdict("allow", grant.scope, f"{tool.name} was allowed for this {grant.scope}") if grant else None


@functools.lru_cache(maxsize=4096)
def whitelisted(name: str, rule: str, fixed: bool) -> Verdict:
    """The one verdict about a tool that is allowed by name, so that its decision is made once."""
    return Verdict("allow", "whitelist", f"{name} is in the whitelist ({rule})", fixed=fixed)


def by_default(tool: Tool, policy: Policy, fixed: bool) -> Verdict:
    """What no rule says anything about."""
    if tool.auto_approved:
        return Verdict("allow", "auto_approved", f"{tool.name} needs no permission", fixed=fixed)
    if tool.spec.access == "read":
        return Verdict("allow", "default", f"{tool.name} only reads", fixed=fixed)
    match policy.default:
        case "deny":
            return Verdict(
                "deny",
                "default",
                f"{tool.name} is not in the whitelist, and the default is deny",
                fixed=fixed,
            )
        case "allow":
            return Verdict("allow", "default", "the default is allow", fixed=fixed)
    hint = f" ({policy.path} is not trusted, so what it allows does not count)" if policy.untrusted else ""
    where = f", which is carried out by {tool.remote.place}" if tool.remote is not None else ""
    return Verdict("ask", "default", f"no rule covers {tool.name}{where}{hint}", shape_of_tool(tool))


def judge_shell(
    command: str | None, call: Call, tool: Tool, rules: ToolRules, given: Circumstances
) -> Verdict:
    """A shell command, judged part by part."""
    if command is None:
        return Verdict("ask", "unknown", "its command cannot be told from its arguments", lasting=False)
    analysis = analyse(command)
    denied = rules.denies_command(analysis) or refused_command(given.grants, tool, analysis)
    if denied is not None:
        return Verdict("deny", "blacklist", f"{shown(command)} {denied}")
    if given.policy.locked is not None:
        return Verdict("deny", "policy_invalid", given.policy.locked)
    patterns = [
        *rules.shell,
        *(one for grant in given.grants if here(grant, given) for one in patterns_of(grant, tool)),
    ]
    found = judge(analysis, given.workspace, [] if given.policy.read_only else patterns)
    if given.policy.read_only and (analysis.unknown or not found.reads):
        return Verdict("deny", "read_only", READ_ONLY.format(name=tool.name), parts=found.parts)
    control = control_doubt(analysis, given.workspace, given.protected) if not found.reads else None
    if control is not None:
        return Verdict(
            "ask", "control_path", CONTROL.format(found=control), None, lasting=False, parts=found.parts
        )
    if analysis.unknown:
        return Verdict("ask", "unknown", found.reason, None, lasting=False, parts=found.parts)
    return settle_shell(analysis, tool, rules, given, found)


def settle_shell(
    analysis: Analysis, tool: Tool, rules: ToolRules, given: Circumstances, found: ShellVerdict
) -> Verdict:
    """What is left when nothing forbids a command: whitelist, grants, plain reads, the default."""
    policy = given.policy
    sure = certain(analysis, tool, rules, given)
    wide = rules.allowed if sure else None
    if wide is not None:
        return Verdict("allow", "whitelist", f"{tool.name} is in the whitelist ({wide})", parts=found.parts)
    grant = given.whole(tool) if sure else None
    if grant is not None:
        reason = f"{tool.name} was allowed for this {grant.scope}"
        return Verdict("allow", grant.scope, reason, parts=found.parts)
    if found.covered and not found.reads:
        method, reason = covering(found, rules, given, tool)
        return Verdict("allow", method, reason, parts=found.parts)
    if found.reads:
        return Verdict("allow", "default", "it only reads, inside the workspace", parts=found.parts)
    if policy.default == "deny":
        return Verdict("deny", "default", "no rule covers it, and the default is deny", parts=found.parts)
    if policy.default == "allow" and sure:
        return Verdict("allow", "default", "the default is allow", parts=found.parts)
    reason = found.reason or "the command cannot be told from what it computes"
    lines = found.entries
    return Verdict("ask", "default", reason, "\n".join(lines) if lines else None, bool(lines), found.parts)


def covering(found: ShellVerdict, rules: ToolRules, given: Circumstances, tool: Tool) -> tuple[str, str]:
    """By which rule or grant a covered command is allowed: the shortest-lived one that was needed."""
    texts = {pattern.text for pattern in rules.shell}
    scope = "whitelist"
    for part in found.parts:
        if not part.reason.startswith("covered by ") or part.reason in {
            f"covered by {text!r}" for text in texts
        }:
            continue
        for grant in given.grants:
            if any(part.reason == f"covered by {one.text!r}" for one in patterns_of(grant, tool)):
                scope = grant.scope
    return scope, "; ".join(f"{part.text[:60]}: {part.reason}" for part in found.parts[:3])


def command_of(arguments: dict[str, Any], name: str) -> str | None:
    """The whole command of a shell tool's arguments: with `args`, the program must be a plain name."""
    command = arguments.get(name)
    if not isinstance(command, str) or "cmd" in arguments:
        return None  # under its other name, too: nobody knows which of the two is run
    extra = arguments.get("args")
    if not extra:
        return command
    if not isinstance(extra, list) or not all(isinstance(one, str) for one in extra):
        return None
    return f"{command} {shlex.join(extra)}" if PLAIN_PROGRAM.fullmatch(command) else None


def main_argument(tool: Tool) -> str | None:
    """The argument a pattern without names is about: the first that is required, else the first."""
    parameters = tool.spec.parameters
    required = parameters.get("required") or list(parameters.get("properties", ()))
    return required[0] if required else None


def shape_of_tool(tool: Tool) -> str:
    """What a lasting answer about a tool that is no shell covers."""
    return f"{tool.name}(*)"
