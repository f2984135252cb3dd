"""Evaluate calls of shell tools, and input for terminals, against the rules: what is allowed, and what has to be asked."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from jaato.protocol.specs import Grant, SandboxAccess
from jaato.tools.filesystem.atomic import resolve_path
from jaato.tools.permissions.access import (
    FULL,
    READ_ONLY,
    WORKSPACE_WRITE,
    covers,
    describe_access,
    difference,
    find_closed_place,
    flags_for,
    format_reason,
    need_issues,
    parse_wanted_access,
    union,
)
from jaato.tools.permissions.context import (
    PermissionContext,
    allows_for_a_while,
    find_command_refusal,
    has_command_denials,
    is_for_workspace,
    patterns_of,
    shorten_command,
    uncheckable_reason,
)
from jaato.tools.permissions.decision import PartVerdict, Verdict
from jaato.tools.permissions.rules import SHELL_TOOLS, ToolRules
from jaato.tools.permissions.shell_coverage import UNCOVERED, Allowance, ShellVerdict, evaluate_parts
from jaato.tools.shell.parser import Analysis, parse_command
from jaato.tools.shell.patterns import shell_pattern

if TYPE_CHECKING:
    from jaato.tools.call import Call
    from jaato.tools.tool import Tool

NO_SANDBOX = (
    "no sandbox on this machine can hold it, so it would run with everything that you may do yourself"
)
NO_SANDBOX_REMEDY = "--sandbox full lets commands that rules allow run without one."
CONFINED = "no rule covers it, so it runs in the read-only sandbox"
IN_PART = "{}; so the whole line runs in the read-only sandbox"
READING = "it runs in the read-only sandbox: nothing else may run now"


class Cover(msgspec.Struct, frozen=True):
    """The rule, grant or mode that allows a command, and the access that it opens."""

    access: SandboxAccess
    method: str
    reason: str


class CommandLine(msgspec.Struct, frozen=True):
    """A command that is to be judged: the tool and its rules, the line taken apart and held against patterns."""

    tool: Tool
    rules: ToolRules
    analysis: Analysis
    found: ShellVerdict
    arguments: dict[str, Any]

    def ask(self, reason: str, access: SandboxAccess | None, *, lasting: bool = True) -> Verdict:
        """A question. A lasting answer covers the commands that no rule covers; all commands of the line where it would let them
        reach more than a rule does."""
        extra = access is not None and difference(access, WORKSPACE_WRITE) is not None
        shape = (
            (self.found.entries if extra or self.found.covered else self.found.missing) if lasting else None
        )
        parts = self.found.parts
        return Verdict("ask", "default", reason, shape, shape is not None, parts, access=access)


def evaluate_command(call: Call, tool: Tool, rules: ToolRules, given: PermissionContext) -> Verdict:
    """Evaluate a shell command. Where rules deny commands, a line that computes what it runs needs an answer."""
    command = command_of(call.arguments, SHELL_TOOLS[tool.name])
    if command is None:
        if (refusal := given.explain_read_only(tool.name)) is not None:
            return Verdict("deny", "read_only", refusal)
        return Verdict("ask", "unknown", "its command cannot be determined from its arguments", lasting=False)
    analysis = parse_command(command)
    denied = rules.denies_command(analysis) or find_command_refusal(given.grants, tool, analysis)
    if denied is not None:
        return Verdict("deny", "blacklist", f"{shorten_command(command)} {denied}")
    if given.policy.locked is not None:
        return Verdict("deny", "policy_invalid", given.policy.locked)
    if issues := need_issues(call.arguments):
        return Verdict("deny", "invalid", "; ".join(f"{path} {text}" for path, text in issues))
    if (closed := find_closed_need(call.arguments, given)) is not None:
        return Verdict("deny", "invalid", closed)
    found = evaluate_parts(analysis, given.workspace, allowances(tool, rules, given))
    line = CommandLine(tool, rules, analysis, found, call.arguments)
    verdict = evaluate_confined(line, given) if tool.confines else evaluate_unconfined(line, given)
    doubt = uncheckable_reason(analysis, tool, rules, given) if verdict.effect != "deny" else None
    if doubt is None:
        return verdict
    return replace(
        verdict, effect="ask", method="computed", reason=doubt, shape=None, lasting=False, remedy=""
    )


def find_closed_need(arguments: dict[str, Any], given: PermissionContext) -> str | None:
    """Why a directory that a call asks for is opened by no answer; None where it asks for none such."""
    wanted = parse_wanted_access(arguments)
    for path in wanted.paths if wanted is not None else ():
        if path == resolve_path(str(given.workspace)):
            continue
        why = find_closed_place(Path(path), given.workspace, Path.home(), given.protected)
        if why is not None:
            return f"need dir:{path} cannot be opened: {why}"
    return None


def evaluate_confined(line: CommandLine, given: PermissionContext) -> Verdict:
    """Evaluate a command that runs in the sandbox: it may reach what rules open, and more needs an answer."""
    policy, found = given.policy, line.found
    wanted = parse_wanted_access(line.arguments)
    cover = cover_of(line, given)
    if cover is None and policy.default == "deny":
        reason = f"{found.in_part or UNCOVERED}, and the default is deny"
        return Verdict("deny", "default", reason, parts=found.parts)
    if (refusal := given.explain_read_only(line.tool.name)) is not None:
        if wanted is None and given.can_enforce(READ_ONLY):
            return allow_in_sandbox(found, CONFINED if cover is None else READING)
        missing = "" if given.can_enforce(READ_ONLY) else f" ({NO_SANDBOX})"
        return Verdict("deny", "read_only", f"{refusal}{missing}", parts=found.parts)
    granted = cover.access if cover is not None else READ_ONLY
    if not given.can_enforce(granted):
        return without_sandbox(line, cover, given)
    if wanted is None or covers(granted, wanted, str(given.workspace)):
        if cover is None:
            return allow_in_sandbox(found, IN_PART.format(found.in_part) if found.in_part else CONFINED)
        return allow_covered(cover, found, granted)
    return question_for(line, cover, wanted, given)


def question_for(
    line: CommandLine, cover: Cover | None, wanted: SandboxAccess, given: PermissionContext
) -> Verdict:
    """The question about a command that asks for more than rules give it: all that a yes opens, and the model's reason."""
    access = union(given.policy.access, *((cover.access,) if cover is not None else ()), wanted)
    once = wanted.control or wanted.profile == "full"
    flags = flags_for(wanted)
    if given.policy.default == "deny":
        reason = f"rules do not open {describe_access(wanted)}, and the default is deny"
        reason += f"; {flags} opens it" if flags else ""
        return Verdict("deny", "default", reason, parts=line.found.parts)
    reason = line.found.reason if cover is None else shorten_command(line.analysis.command)
    if not given.can_enforce(access):
        access, once = FULL, True
        reason = f"{reason}; {NO_SANDBOX}"
    verdict = line.ask(
        f"{reason}; a yes opens {describe_access(access)}{reason_of_model(line)}", access, lasting=not once
    )
    method = "control_path" if wanted.control or wanted.profile == "full" else "default"
    remedy = ""
    if flags:
        pattern = verdict.shape.split("\n")[0] if verdict.shape and cover is None else ""
        rule = f"--allow {f'{line.tool.name}({pattern})'!r} and " if pattern else ""
        remedy = f"{rule}{flags} allow it for a whole session."
    return replace(verdict, method=method, remedy=remedy)


def reason_of_model(line: CommandLine) -> str:
    """The model's reason, as the end of a question."""
    reason = format_reason(line.arguments)
    return f'; the model says: "{reason}"' if reason else ""


def without_sandbox(line: CommandLine, cover: Cover | None, given: PermissionContext) -> Verdict:
    """The verdict on a command that no sandbox here can confine: a yes lets it run without one."""
    if cover is not None and given.policy.default == "allow":
        reason = f"{NO_SANDBOX}; {NO_SANDBOX_REMEDY}"
        return Verdict("deny", "no_sandbox", reason, parts=line.found.parts)
    full = given.policy.access.profile == "full"
    reason = f"{line.found.reason}; {NO_SANDBOX}" if cover is None else NO_SANDBOX
    verdict = line.ask(f"{reason}{reason_of_model(line)}", FULL, lasting=full)
    return verdict if full else replace(verdict, remedy=NO_SANDBOX_REMEDY)


def evaluate_unconfined(line: CommandLine, given: PermissionContext) -> Verdict:
    """Evaluate a command whose tool has no sandbox: rules cover it completely, or it needs an answer."""
    if (refusal := given.explain_read_only(line.tool.name)) is not None:
        return Verdict("deny", "read_only", refusal, parts=line.found.parts)
    cover = cover_of(line, given)
    if cover is not None:
        return allow_covered(cover, line.found, None)
    if given.policy.default == "deny":
        reason = f"{line.found.in_part or UNCOVERED}, and the default is deny"
        return Verdict("deny", "default", reason, parts=line.found.parts)
    verdict = line.ask(line.found.reason, None, lasting=not line.analysis.unknown)
    return replace(verdict, method="unknown") if line.analysis.unknown else verdict


def allow_covered(cover: Cover, found: ShellVerdict, access: SandboxAccess | None) -> Verdict:
    """A command that something allows, whole or by its parts."""
    parts = tuple(
        part if part.effect == "allow" else PartVerdict(part.text, "allow", cover.reason)
        for part in found.parts
    )
    return Verdict("allow", cover.method, cover.reason, parts=parts, access=access)


def allow_in_sandbox(found: ShellVerdict, reason: str) -> Verdict:
    """A command in the sandbox where it can only read."""
    parts = tuple(
        part if part.effect == "allow" else PartVerdict(part.text, "allow", f"read-only: {part.reason}")
        for part in found.parts
    )
    return Verdict("allow", "sandbox", reason, parts=parts, access=READ_ONLY)


def cover_of(line: CommandLine, given: PermissionContext) -> Cover | None:
    """Find what allows a command, the widest rule first; None if nothing does."""
    policy, found, tool = given.policy, line.found, line.tool
    understood = not line.analysis.unknown or (tool.confines and policy.access.profile != "full")
    if understood and line.rules.allowed is not None:
        reason = f"{tool.name} is in the whitelist ({line.rules.allowed})"
        return Cover(union(policy.access, found.access), "whitelist", reason)
    grant = given.find_tool_grant(tool) if understood else None
    if grant is not None:
        reason = f"{tool.name} was allowed for this {grant.scope}"
        return Cover(union(policy.access, found.access), grant.scope, reason)
    if found.covered:
        method, reason = explain_cover(found, line.rules, given, tool)
        return Cover(union(policy.access, found.access), method, reason)
    if understood and policy.default == "allow":
        return Cover(policy.access, "default", "the default is allow")
    if policy.mode == "auto" and policy.default == "ask" and tool.confines:
        access = SandboxAccess("workspace-write", policy.access.domains, policy.access.paths)
        return Cover(access, "mode", "commands run in the workspace unasked (mode auto)")
    return None


def allowances(tool: Tool, rules: ToolRules, given: PermissionContext) -> Iterator[Allowance]:
    """Every pattern that may cover a command, with what its grant opens."""
    lasting = extras(given.policy.grants(), tool)
    for pattern in rules.shell:
        yield Allowance(pattern, lasting.get(pattern.text))
    for grant in given.grants:
        if is_for_workspace(grant, given):
            for pattern in patterns_of(grant, tool):
                yield Allowance(pattern, safe_extra(grant))


def extras(grants: Iterable[Grant], tool: Tool) -> dict[str, SandboxAccess]:
    """The access that lasting grants open beyond the workspace, by the text of their patterns."""
    found: dict[str, SandboxAccess] = {}
    for grant in grants:
        extra = safe_extra(grant)
        if extra is None or grant.effect != "allow" or grant.tool != tool.name or not grant.shape:
            continue
        for text in grant.shape.split("\n"):
            if shell_pattern(text) is not None:
                found[text] = union(found[text], extra) if text in found else extra
    return found


def safe_extra(grant: Grant) -> SandboxAccess | None:
    """What a grant remembers to open: hosts and directories, never control files, never all, and no directory that has
    become a link since the question was answered."""
    access = grant.access
    if access is None:
        return None
    paths = tuple(path for path in access.paths if resolve_path(path) == path)
    return SandboxAccess("workspace-write", access.domains, paths)


def explain_cover(
    found: ShellVerdict, rules: ToolRules, given: PermissionContext, tool: Tool
) -> tuple[str, str]:
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
    """The whole command of a shell tool's arguments; with `args`, the words of it as a shell would have to be given them."""
    command = arguments.get(name)
    if not isinstance(command, str) or "cmd" in arguments:
        return None  # given under both names, so it is unknown which is run
    extra = arguments.get("args")
    if extra is None:
        return command
    if not isinstance(extra, list) or not all(isinstance(one, str) for one in extra):
        return None
    return shlex.join([command, *extra])


ENTER = ("enter", "return")


def evaluate_terminal_input(call: Call, tool: Tool, rules: ToolRules, given: PermissionContext) -> Verdict:
    """Evaluate input for a program at a terminal: no rule for commands allows it, only one for the tool, for exactly
    this text, or for this terminal."""
    text, policy = call.arguments.get("text", ""), given.policy
    analysis = parse_command(text if isinstance(text, str) else "")
    denied = rules.denies_command(analysis) or find_command_refusal(given.grants, tool, analysis)
    if denied is not None:
        return Verdict("deny", "blacklist", f"{shorten_command(analysis.command)} {denied}")
    if policy.locked is not None:
        return Verdict("deny", "policy_invalid", policy.locked)
    reached = tool.reaches(call) if tool.reaches is not None else None
    if (
        reached is not None
        and reached.profile == "read-only"
        and (policy.default != "deny" or policy.read_only)
    ):
        return evaluate_harmless_input(analysis, call, tool, rules, given)
    if (refusal := given.explain_read_only(tool.name)) is not None:
        return Verdict("deny", "read_only", refusal)
    shape = f"session_id={call.arguments.get('session_id')}"
    plain = not analysis.unknown and uncheckable_reason(analysis, tool, rules, given) is None
    understood = plain and is_line(call.arguments)
    sure = understood or not has_command_denials(tool, rules, given)
    if sure and rules.allowed is not None:
        return Verdict("allow", "whitelist", f"{tool.name} is in the whitelist ({rules.allowed})")
    if only_text(call.arguments) and any(one.text == text for one in rules.shell):
        return Verdict("allow", "whitelist", "exactly this text is in the whitelist")
    own = [one for one in given.grants if one.shape == shape and allows_for_a_while(one, tool)]
    grant = given.find_tool_grant(tool) or next((one for one in own if is_for_workspace(one, given)), None)
    if sure and grant is not None:
        return Verdict("allow", grant.scope, f"typing there was allowed for this {grant.scope}")
    if policy.default != "ask" and (sure or policy.default == "deny"):
        return Verdict(policy.default, "default", f"no rule covers it, and the default is {policy.default}")
    return Verdict("ask", "default", "what a program does with typed input is unknown", shape)


def evaluate_harmless_input(
    analysis: Analysis, call: Call, tool: Tool, rules: ToolRules, given: PermissionContext
) -> Verdict:
    """Evaluate input for a program that can only read; it needs an answer if deny rules cannot be checked."""
    if has_command_denials(tool, rules, given):
        doubt = uncheckable_reason(analysis, tool, rules, given)
        if doubt is not None or not is_line(call.arguments):
            reason = doubt or "it is part of a line, so rules that forbid commands cannot be held against it"
            return Verdict("ask", "computed", reason, lasting=False, access=READ_ONLY)
    return Verdict("allow", "sandbox", "the program at that terminal can only read", access=READ_ONLY)


def is_line(arguments: dict[str, Any]) -> bool:
    """Whether the text is all of a line: no part that another input continues, no keys that make another of it."""
    keys, enter = arguments.get("keys") or [], arguments.get("enter")
    if not isinstance(keys, list):
        return False
    entered = enter is True or (enter is None and (not keys or keys[0] in ENTER))
    return entered and all(key in (*ENTER, "ctrl-c", "ctrl-d") for key in keys)


def only_text(arguments: dict[str, Any]) -> bool:
    """Whether the input is the text and enter, nothing else."""
    return (
        not any(arguments.get(name) for name in ("keys", "secret_env"))
        and arguments.get("enter") is not False
    )
