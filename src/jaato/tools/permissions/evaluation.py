"""Evaluate a call against the rules: blacklist, control paths, whitelist, grants, defaults, in this order."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jaato.tools.permissions.access import FULL
from jaato.tools.permissions.context import (
    CONTROL,
    PermissionContext,
    find_control_path,
    find_refusal,
    is_inside_workspace,
)
from jaato.tools.permissions.decision import Verdict
from jaato.tools.permissions.policy import Policy
from jaato.tools.permissions.rules import SHELL_TOOLS, TYPED_TOOLS, ToolRules
from jaato.tools.permissions.shell_evaluation import NO_SANDBOX, evaluate_command, evaluate_terminal_input
from jaato.tools.waypoints import RESTORING, evaluate_restore, previews

if TYPE_CHECKING:
    from jaato.tools.call import Call
    from jaato.tools.tool import Tool

APPROVING = "startPlan"
"""The tool whose call asks the user to approve a plan, where nothing is done without one."""
FILES = "filesystem"


def evaluate_call(call: Call, tool: Tool, given: PermissionContext) -> Verdict:
    """Evaluate a call without asking anyone. Bounded in time for any arguments; never raises."""
    verdict = evaluate_tool(call, tool, given)
    if verdict.access is None and tool.spec.access == "execute" and verdict.effect != "deny":
        verdict = with_access(verdict, tool, given)
    if tool.remote is None or not (changed := tool.remote.describe_change(call)):
        return verdict
    verdict = ask_about_changed(verdict, tool, changed, given.policy)
    if verdict.effect == "allow":
        tool.remote.allow_changed(call)
    return verdict


def with_access(verdict: Verdict, tool: Tool, given: PermissionContext) -> Verdict:
    """The verdict about a tool that may start a process which is no command, with what that may reach."""
    if tool.name in SHELL_TOOLS and not tool.confines:
        return verdict
    access = given.policy.access
    if verdict.effect == "ask" and tool.confines and not given.can_enforce(access):
        reason = f"{verdict.reason}; {NO_SANDBOX}"
        return replace(verdict, reason=reason, access=FULL, lasting=False, shape=None)
    return replace(verdict, access=access)


def ask_about_changed(verdict: Verdict, tool: Tool, changed: str, policy: Policy) -> Verdict:
    """The verdict about a remote tool that has changed since it was allowed: an earlier permission does not cover it."""
    if verdict.effect == "deny" or (verdict.effect == "allow" and policy.default == "allow"):
        return verdict
    assert tool.remote is not None
    where, accept_command = tool.remote.place, tool.remote.accept_command
    remedy = f"Accept the change with `{accept_command}`, or by answering where someone can be asked."
    reason = f"{tool.name} of {where} has changed since it was last allowed ({changed})"
    if verdict.effect == "ask":
        return replace(verdict, reason=f"{verdict.reason}; {reason}", remedy=remedy)
    if policy.default == "deny":
        return Verdict(
            "deny", "default", f"{reason}, and the default is deny; `{accept_command}` accepts the change"
        )
    return Verdict("ask", "default", reason, shape_of_tool(tool), remedy=remedy)


def evaluate_tool(call: Call, tool: Tool, given: PermissionContext) -> Verdict:
    """The verdict by the rules, the grants and the default."""
    rules = given.policy.rules_for(tool)
    if rules.denied is not None:
        return Verdict("deny", "blacklist", f"{tool.name} is in the blacklist ({rules.denied})", fixed=True)
    if tool.name in TYPED_TOOLS:
        return evaluate_terminal_input(call, tool, rules, given)
    if tool.name in SHELL_TOOLS:
        return evaluate_command(call, tool, rules, given)
    place = str(given.workspace)
    denied = None if rules.by_name_only else rules.denies(call.arguments, main_argument(tool), place)
    if denied is None and given.grants:
        denied = find_refusal(given.grants, tool)
    if denied is not None:
        return Verdict("deny", "blacklist", f"{tool.name} {denied}")
    if given.policy.locked is not None and not tool.auto_approved:
        return Verdict("deny", "policy_invalid", given.policy.locked)
    access = tool.spec.access
    if tool.name == RESTORING and previews(call):
        return Verdict("allow", "default", f"{tool.name} only shows what it would do")
    if access != "read" and not tool.auto_approved and (refusal := given.explain_read_only(tool.name)):
        return Verdict("deny", "read_only", refusal, fixed=rules.by_name_only)
    if tool.name == APPROVING and given.policy.mode == "plan":
        return Verdict("ask", "plan", plan_text(call), lasting=False)
    if access in ("write", "execute") and not tool.auto_approved and call.arguments:
        found = find_control_path(call.arguments, place, access == "execute", given.protected, given.names)
        if found is not None:
            return Verdict(
                "ask", "control_path", CONTROL.format(found=found), shape_of_tool(tool), lasting=False
            )
    if tool.name == RESTORING and given.policy.default != "deny" and (owned := evaluate_restore(call)):
        return owned
    fixed = rules.by_name_only and access in ("read", "network") and tool.remote is None
    return (
        evaluate_rules(call, tool, rules, given, fixed)
        or evaluate_mode(call, tool, given)
        or by_default(tool, given.policy, fixed)
    )


def evaluate_rules(
    call: Call, tool: Tool, rules: ToolRules, given: PermissionContext, fixed: bool
) -> Verdict | None:
    """The whitelist and the grants."""
    if rules.allowed is not None:
        return allow_by_name(tool.name, rules.allowed, fixed)
    if not rules.by_name_only:
        allowed = rules.allows(call.arguments, main_argument(tool), str(given.workspace))
        if allowed is not None:
            return Verdict("allow", "whitelist", f"{tool.name} is covered by {allowed}")
    grant = given.find_tool_grant(tool)
    return Verdict("allow", grant.scope, f"{tool.name} was allowed for this {grant.scope}") if grant else None


def evaluate_mode(call: Call, tool: Tool, given: PermissionContext) -> Verdict | None:
    """The verdict of the mode: file tools may write inside the workspace."""
    policy = given.policy
    if policy.mode not in ("accept-edits", "auto") or policy.default != "ask" or tool.remote is not None:
        return None
    if tool.spec.access != "write" or tool.spec.category != FILES:
        return None
    if not is_inside_workspace(call.arguments, str(given.workspace)):
        return None
    return Verdict(
        "allow", "mode", f"files of the workspace are changed without a question (mode {policy.mode})"
    )


def plan_text(call: Call) -> str:
    """The plan that a call would begin, for who is asked to approve it."""
    plans = call.services.get("plans")
    plan_id = call.arguments.get("plan_id")
    plan = None if plans is None else plans.plans.get(plan_id) if plan_id else plans.current
    if plan is None:
        return "nothing but reading happens before a plan is approved; a yes approves it"
    steps = "; ".join(f"{at}. {step.description}" for at, step in enumerate(plan.steps, 1))
    return f"a yes approves the plan {plan.title!r} and lets work begin: {steps}"


@functools.lru_cache(maxsize=4096)
def allow_by_name(name: str, rule: str, fixed: bool) -> Verdict:
    """The verdict about a tool that is allowed by name; cached, so that its decision is too."""
    return Verdict("allow", "whitelist", f"{name} is in the whitelist ({rule})", fixed=fixed)


def by_default(tool: Tool, policy: Policy, fixed: bool) -> Verdict:
    """The verdict by the default, if no rule applies."""
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
    hint = ""
    if policy.untrusted:
        hint = f" ({policy.path} is not trusted, so what it allows does not count)"
    elif policy.deferred:
        hint = f" (what {policy.path} allows since this session began counts in the next one)"
    where = f", which is carried out by {tool.remote.place}" if tool.remote is not None else ""
    return Verdict("ask", "default", f"no rule covers {tool.name}{where}{hint}", shape_of_tool(tool))


def main_argument(tool: Tool) -> str | None:
    """The argument a pattern without names is about: the first that is required, else the first."""
    parameters = tool.spec.parameters
    required = parameters.get("required") or list(parameters.get("properties", ()))
    return required[0] if required else None


def shape_of_tool(tool: Tool) -> str:
    """The shape of a lasting answer about a tool that is no shell."""
    return f"{tool.name}(*)"
