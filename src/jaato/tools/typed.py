"""What is typed into a program at a terminal, held against the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaato.tools.circumstances import (
    Circumstances,
    allows_for_a_while,
    forbids,
    here,
    hides,
    refused_command,
    shown,
)
from jaato.tools.openings import READ_ONLY
from jaato.tools.policy_rules import ToolRules
from jaato.tools.shell_parse import analyse
from jaato.tools.shell_parts import Analysis
from jaato.tools.verdict import Verdict

if TYPE_CHECKING:
    from jaato.tools.call import Call
    from jaato.tools.tool import Tool


ENTER = ("enter", "return")


def judge_input(call: Call, tool: Tool, rules: ToolRules, given: Circumstances) -> Verdict:
    """What is typed into a program at a terminal: no rule for commands allows it, only one for the tool, for exactly
    this text, or for this terminal."""
    text, policy = call.arguments.get("text", ""), given.policy
    analysis = analyse(text if isinstance(text, str) else "")
    denied = rules.denies_command(analysis) or refused_command(given.grants, tool, analysis)
    if denied is not None:
        return Verdict("deny", "blacklist", f"{shown(analysis.command)} {denied}")
    if policy.locked is not None:
        return Verdict("deny", "policy_invalid", policy.locked)
    reached = tool.reaches(call) if tool.reaches is not None else None
    if (
        reached is not None
        and reached.profile == "read-only"
        and (policy.default != "deny" or policy.read_only)
    ):
        return typed_harmlessly(analysis, call, tool, rules, given)
    if (refusal := given.only_reads(tool.name)) is not None:
        return Verdict("deny", "read_only", refusal)
    shape = f"session_id={call.arguments.get('session_id')}"
    plain = not analysis.unknown and hides(analysis, tool, rules, given) is None
    understood = plain and is_line(call.arguments)
    sure = understood or not forbids(tool, rules, given)
    if sure and rules.allowed is not None:
        return Verdict("allow", "whitelist", f"{tool.name} is in the whitelist ({rules.allowed})")
    if only_text(call.arguments) and any(one.text == text for one in rules.shell):
        return Verdict("allow", "whitelist", "exactly this text is in the whitelist")
    own = [one for one in given.grants if one.shape == shape and allows_for_a_while(one, tool)]
    grant = given.whole(tool) or next((one for one in own if here(one, given)), None)
    if sure and grant is not None:
        return Verdict("allow", grant.scope, f"typing there was allowed for this {grant.scope}")
    if policy.default != "ask" and (sure or policy.default == "deny"):
        return Verdict(policy.default, "default", f"no rule covers it, and the default is {policy.default}")
    return Verdict("ask", "default", "what a program does with what is typed cannot be told", shape)


def typed_harmlessly(
    analysis: Analysis, call: Call, tool: Tool, rules: ToolRules, given: Circumstances
) -> Verdict:
    """What is typed into a program that can only read; asked about where something is forbidden and cannot be seen."""
    if forbids(tool, rules, given):
        doubt = hides(analysis, tool, rules, given)
        if doubt is not None or not is_line(call.arguments):
            reason = doubt or "it is part of a line, so rules that forbid commands cannot be held against it"
            return Verdict("ask", "computed", reason, lasting=False, access=READ_ONLY)
    return Verdict("allow", "sandbox", "the program at that terminal can only read", access=READ_ONLY)


def is_line(arguments: dict[str, Any]) -> bool:
    """Whether the text is all of a line: no part that another input goes on with, no keys that make another of it."""
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
