"""What is typed into a program at a terminal, held against the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaato.tools.circumstances import (
    CONTROL,
    READ_ONLY,
    Circumstances,
    allows_for_a_while,
    certain,
    forbids,
    here,
    refused_command,
    shown,
)
from jaato.tools.policy_rules import ToolRules
from jaato.tools.shell_control import control_typed
from jaato.tools.shell_parse import analyse
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
    if policy.read_only:
        return Verdict("deny", "read_only", READ_ONLY.format(name=tool.name))
    found = control_typed(analysis, given.workspace, given.protected)
    if found is not None:
        return Verdict("ask", "control_path", CONTROL.format(found=found), None, lasting=False)
    shape = f"session_id={call.arguments.get('session_id')}"
    understood = certain(analysis, tool, rules, given) and is_line(call.arguments)
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
