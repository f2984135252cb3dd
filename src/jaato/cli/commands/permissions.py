"""`jaato permissions`: list rules and grants, explain decisions, trust the permission file."""

from __future__ import annotations

import fnmatch
from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec

from jaato.cli.arguments.values import clean_text, directories_of, parse_object, session_options, workspace_of
from jaato.cli.output.console import print_json, print_line, print_rows, time_text
from jaato.errors import ConfigError
from jaato.protocol.ids import new_id
from jaato.runtime.plugins.setup import create_registry
from jaato.runtime.policy_setup import policy_for
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.settings import Settings
from jaato.tools.call import Call
from jaato.tools.filesystem.control_files import control_names
from jaato.tools.permissions.access import access_lines, grant_text
from jaato.tools.permissions.gate import Gate, Policy, Verdict
from jaato.tools.permissions.policy_document import split_pattern
from jaato.tools.processes.sandbox.sandbox import profiles_of
from jaato.tools.schema import arguments_error
from jaato.tools.tool import Tool

NEW_SESSIONS_ONLY = (
    "Open sessions keep their denials; this applies to sessions that are started or resumed from now on."
)


def main(args: Namespace) -> int:
    """Run one action."""
    workspace = workspace_of(args)
    options = msgspec.structs.replace(
        session_options(args),
        mode=args.mode,
        sandbox=args.sandbox,
        allow_domains=tuple(args.allow_domain),
        add_dirs=directories_of(args),
    )
    settings = settings_for(options, workspace)
    policy = policy_for(options, settings, workspace)
    match args.action:
        case "revoke":
            gate = Gate(policy, workspace=workspace)
            refused = {one.id for one in gate.grants() if one.effect == "deny"}
            for grant_id in args.grants:
                gate.revoke(clean_text(grant_id) or "")
                print_line(f"revoked {grant_id}")
            if refused & set(args.grants):
                print_line(NEW_SESSIONS_ONLY)
        case "explain":
            explain(args, options, settings, policy, workspace)
        case "trust":
            if args.file:
                policy = Policy.load(
                    Path(args.file).absolute(),
                    workspace=workspace,
                    state_dir=settings.state_dir,
                    trusted=False,
                )
            policy.trust()
            print_line(f"trusted the current {policy.path}; after a change it must be trusted again")
            print_line(NEW_SESSIONS_ONLY)
        case _:
            list_rules(args, policy, settings, options, workspace)
    return 0


def unknown_tool_patterns(
    policy: Policy, settings: Settings, options: SessionOptions, workspace: Path
) -> list[str]:
    """The patterns `tool(…)` that have no effect because no tool has this name."""
    halves = {one: split_pattern(one) for one in {*policy.whitelist.patterns, *policy.blacklist.patterns}}
    named = {one: name for one, (name, inner) in halves.items() if inner is not None and name != "run"}
    if not named:
        return []
    registry = create_registry(workspace, settings, "", options)
    try:
        known = {name for tool in registry.catalog for name in (tool.name, *tool.aliases)}
    finally:
        registry.shutdown()
    return sorted(one for one, name in named.items() if not fnmatch.filter(known, name))


def list_rules(
    args: Namespace, policy: Policy, settings: Settings, options: SessionOptions, workspace: Path
) -> None:
    """List the rules and grants."""
    rules = policy.rules()
    grants = policy.grants()
    if args.json:
        print_json(
            {
                "file": str(policy.path),
                "trusted": not policy.untrusted,
                "default": policy.default,
                "rules": msgspec.to_builtins(rules),
                "grants": msgspec.to_builtins(grants),
            }
        )
        return
    remark = "" if policy.path is None or policy.path.exists() else " (does not exist)"
    if policy.untrusted:
        remark = " (not trusted: its allow rules do not apply; see `jaato permissions trust`)"
    print_line(f"file     {policy.path}{remark}")
    print_line(f"default  {policy.default}; read-only calls are allowed")
    if policy.locked:
        print_line(f"locked   {policy.locked}")
    print_rows((one.effect, one.pattern) for one in rules)
    if grants:
        print_line("\ngrants:")
    print_rows((one.id, one.effect, grant_text(one), time_text(one.created_at)) for one in grants)
    for pattern in unknown_tool_patterns(policy, settings, options, workspace):
        print_line(f"note: {pattern} has no effect: there is no such tool")
    for note in settings.notes:
        print_line(f"note: {note}")


def explain(
    args: Namespace, options: SessionOptions, settings: Settings, policy: Policy, workspace: Path
) -> None:
    """Print whether a command or call would be allowed, and why, part by part."""
    registry = create_registry(workspace, settings, settings["model"] or "", options)
    try:
        tool, arguments = subject_of(args, registry.catalog.find)
        issues = tool.issues(arguments)
        if issues:
            raise arguments_error(tool.name, issues)
        call = Call(id=new_id("c"), name=tool.name, arguments=arguments, workspace=workspace)
        gate = Gate(
            policy,
            workspace=workspace,
            protected=(settings.state_dir, settings.config_dir),
            control_names=control_names(tuple(settings["control_files"])),
            profiles=profiles_of(registry.services, workspace),
        )
        print_verdict(args, gate.explain(call, tool), tool, policy.distrust)
    finally:
        registry.shutdown()


def subject_of(args: Namespace, find: Any) -> tuple[Tool, dict[str, Any]]:
    """The tool and arguments to explain: a tool's name with JSON, else a shell command."""
    subject = clean_text(args.subject) or ""
    found = find(subject)
    if found is None and args.arguments is None:
        shell = find("run")
        if shell is None:
            raise ConfigError(f"There is no tool {subject!r}, and no tool `run` for commands.")
        return shell.tool, {"command": subject}
    if found is None:
        raise ConfigError(f"There is no tool {subject!r}; `jaato tools list` shows them all.")
    if args.arguments is None:
        if found.tool.name != subject or found.tool.spec.parameters.get("required"):
            raise ConfigError(f"{subject} is a tool; give its arguments as JSON: {subject} '{{…}}'")
        return found.tool, {}
    arguments = parse_object(args.arguments, "The arguments")
    return found.tool, {found.rename.get(key, key): value for key, value in arguments.items()}


def print_verdict(args: Namespace, verdict: Verdict, tool: Tool, distrust: str) -> None:
    """Print a decision, and `distrust` of the permission file."""
    if args.json:
        print_json(
            {
                "tool": tool.name,
                "effect": verdict.effect,
                "method": verdict.method,
                "reason": verdict.reason,
                "shape": verdict.shape,
                "lasting": verdict.lasting,
                "access": msgspec.to_builtins(verdict.access),
                "distrust": distrust or None,
                "parts": [{"text": p.text, "effect": p.effect, "reason": p.reason} for p in verdict.parts],
            }
        )
        return
    words = {"allow": "allowed", "deny": "denied", "ask": "asked about"}
    print_line(f"{words[verdict.effect]} ({verdict.method}): {verdict.reason}")
    print_rows((f"  {words[part.effect]}", part.text, part.reason) for part in verdict.parts)
    if distrust:
        print_line(distrust)
    if verdict.access is not None and verdict.effect != "deny":
        print_line("it would run with" if verdict.effect == "allow" else "yes would allow")
        for line in access_lines(verdict.access):
            print_line(f"  {line}")
    if verdict.effect == "ask":
        if not verdict.lasting:
            print_line("It can only be allowed once.")
        elif verdict.shape:
            print_line("'always' would cover: " + "; ".join(verdict.shape.split("\n")))
