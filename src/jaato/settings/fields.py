"""Every setting: its name, type, default and meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from jaato.settings.budgets import SCOPES, UNITS, Scope, Unit, get_setting_name

Kind = Literal["text", "number", "integer", "switch", "list"]


class Field(msgspec.Struct, frozen=True):
    """One setting: its type, default and meaning; `tighten(new, old)` says whether an untrusted workspace may choose `new`. `variable` is
    the documented name of its environment variable, where that is not `JAATO_` and its own."""

    kind: Kind
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    tighten: Callable[[Any, Any], bool] | None = None
    variable: str = ""


def fewer(new: Any, old: Any) -> bool:
    """Whether a number is tighter than another."""
    return bool(old is None or 0 < new < old)


BUDGET_SCOPES: dict[Scope, str] = {
    "turn": "one turn with all its subagents",
    "session": "a session with its subagents",
    "day": "all sessions in one day (UTC)",
}
BUDGET_UNITS: dict[Unit, tuple[Kind, str]] = {
    "tokens": ("integer", "tokens, input and output,"),
    "usd": ("number", "US dollars"),
    "s": ("number", "seconds of its turns"),
}


def make_budget_field(scope: Scope, unit: Unit) -> Field:
    """The setting of one budget."""
    kind, words = BUDGET_UNITS[unit]
    text = f"{words} that {BUDGET_SCOPES[scope]} may use before the user is asked; 0 or none: no limit"
    return Field(kind, None, text, tighten=fewer)


FIELDS: dict[str, Field] = {
    "provider": Field("text", None, "which provider answers; without it the first that can be used"),
    "model": Field("text", None, "which model; without it the provider's default"),
    "base_url": Field("text", None, "where the provider is, when not at its usual place"),
    "interface": Field(
        "text",
        "auto",
        "how openai and ollama are spoken to; auto: responses at OpenAI's own host, chat at any other",
        ("auto", "chat", "responses"),
    ),
    "temperature": Field("number", None, "sampling temperature"),
    "effort": Field("text", None, "how hard the model thinks", ("minimal", "low", "medium", "high")),
    "max_output_tokens": Field("integer", None, "the longest reply, in tokens"),
    "max_turns": Field("integer", 200, "model calls one prompt may take", tighten=fewer),
    **{get_setting_name(scope, unit): make_budget_field(scope, unit) for scope in SCOPES for unit in UNITS},
    "loop_detection": Field(
        "switch",
        True,
        "point repeated steps out to the model, then ask the user, or end the turn when no one can answer",
        tighten=lambda new, old: bool(new),
    ),
    "parallel_tools": Field("switch", True, "run the calls of one reply at the same time"),
    "deferred_tools": Field("switch", True, "declare only core tools at first"),
    "background_after_s": Field(
        "number", 10.0, "seconds after which a slow command continues in the background"
    ),
    "subagent_depth": Field("integer", 3, "how deep subagents may nest; 0: none", tighten=fewer),
    "subagents_at_once": Field("integer", 8, "how many subagents may work at the same time", tighten=fewer),
    "subagents_open": Field("integer", 32, "how many subagents a session may have open", tighten=fewer),
    "wake_idle_agent": Field(
        "switch", True, "a background task or subagent that ends starts a turn of its idle agent"
    ),
    "durability": Field(
        "text", "normal", "normal survives kill -9, full also a power loss", ("normal", "full")
    ),
    "keep_days": Field(
        "number", None, "days after its last use that `jaato sessions vacuum` keeps a session; all without"
    ),
    "keep_sessions": Field("integer", None, "how many sessions `jaato sessions vacuum` keeps; all without"),
    "keep_mb": Field(
        "number", None, "how many megabytes of sessions `jaato sessions vacuum` keeps; all without"
    ),
    "read_only": Field(
        "switch", False, "deny every tool that does more than read", tighten=lambda new, old: bool(new)
    ),
    "mode": Field(
        "text",
        "ask",
        "what runs without a question: ask (only what reads), accept-edits (file tools in the workspace too), auto (commands "
        "that write in the workspace too), plan (only what reads, until a plan is approved), read-only (nothing more; "
        "a session that begins so keeps it)",
        ("ask", "accept-edits", "auto", "plan", "read-only"),
        tighten=lambda new, old: new == "read-only" or (new == "plan" and old != "read-only"),
    ),
    "sandbox": Field(
        "text",
        "workspace-write",
        "what a command that a rule allows may reach: workspace-write, or full (no sandbox)",
        ("workspace-write", "full"),
        tighten=lambda new, old: new == "workspace-write",
    ),
    "sandbox_backend": Field(
        "text",
        "auto",
        "what confines commands: auto takes the first that works, none lets every command ask",
        ("auto", "bubblewrap", "landlock", "none"),
        tighten=lambda new, old: False,
    ),
    "allow_domains": Field(
        "list",
        [],
        "hosts that commands which may write reach through the proxy: pypi.org, *.npmjs.org, host:8443",
    ),
    "add_dirs": Field(
        "list", [], "directories outside the workspace that commands which may write can change"
    ),
    "control_files": Field(
        "list",
        [],
        "more files that decide what runs: NAME, GLOB or DIR/NAME; tier2: in front for those that commands may write",
        tighten=lambda new, old: True,
    ),
    "allow": Field("list", [], "tools and command patterns that run without asking"),
    "question_timeout_s": Field(
        "number", 0.0, "seconds until an unanswered question is denied, or its default counts; 0: no end"
    ),
    "deny": Field("list", [], "tools and command patterns that never run", tighten=lambda new, old: True),
    "roots": Field("list", [], "directories outside the workspace that file tools may use too"),
    "allow_hosts": Field(
        "list",
        [],
        "hosts at private addresses that web tools may reach: localhost:8080, *.corp.example, 10.0.0.0/8, * for all",
    ),
    "search_engine": Field("text", "ddgs", "where web_search asks: ddgs, or the URL of a SearXNG server"),
    "service_keys": Field(
        "list",
        [],
        "keys that http_request may send, as VARIABLE=host: only to that host, only when it is named",
    ),
    "mask_secrets": Field(
        "switch",
        True,
        "keep secrets of the environment, saved keys and known shapes out of logs, requests and events",
        tighten=lambda new, old: bool(new),
    ),
    "language_servers": Field(
        "list",
        [],
        "language servers beside those known: rust (lets a known one run), python=pylsp, zig:.zig=zls",
    ),
    "disabled_plugins": Field(
        "list", [], "plugins, by name, that are never loaded", tighten=lambda new, old: True
    ),
    "gc": Field(
        "text",
        "gc_hybrid",
        "the strategy that compacts a full context: gc_truncate, gc_summarize, gc_hybrid, or a plugin's; none: no compaction",
    ),
    "gc_threshold": Field("number", 80.0, "how full the context is, in percent, when it is compacted"),
    "context_limit": Field(
        "integer",
        None,
        "how many tokens fit into a model's context; without it what is known of the model, what its server says, or 32768",
    ),
    "context_limits": Field(
        "list", [], "the same for models by name or pattern, before context_limit: MODEL=TOKENS, qwen3*=32768"
    ),
    "server": Field(
        "text",
        "auto",
        "whether run and chat work in the server: auto when one runs, always (it is started), never; "
        "read from the environment and your own file alone",
        ("auto", "always", "never"),
    ),
    "trace_file": Field(
        "text",
        None,
        "a file for spans of turns, model calls and tool calls, as OTLP in JSON lines (extra otel); none without",
    ),
    "trace_file_mb": Field(
        "number", 20.0, "megabytes after which trace_file begins anew; the one before is kept beside it"
    ),
    "trace_endpoint": Field(
        "text",
        None,
        "a collector that spans are sent to over OTLP/HTTP (extra otel): http://localhost:4318; "
        "without it what OTEL_EXPORTER_OTLP_ENDPOINT names; off: none",
    ),
    "trace_content": Field(
        "switch",
        False,
        "put into spans the messages, and the arguments and results of calls",
        tighten=lambda new, old: not new,
    ),
    "tool_registry_domains": Field(
        "list",
        ["core"],
        "what a tool registry serves: core, modules by import path, files ending in .py",
        variable="TOOL_REGISTRY_DOMAINS",
    ),
    "tool_registry_host": Field(
        "text", "127.0.0.1", "the address a tool registry listens at", variable="TOOL_REGISTRY_HOST"
    ),
    "tool_registry_port": Field(
        "integer", 8000, "the port a tool registry listens at; 0: any", variable="TOOL_REGISTRY_PORT"
    ),
    "tool_registry_rate": Field(
        "text",
        None,
        "how often a key or, without keys, an address may ask a tool registry: 100/min, 5/s; none: as often as it likes",
    ),
    "tool_registry_log_days": Field(
        "number", 30.0, "how many days the calls of a tool registry are kept in the log; 0: for good"
    ),
    "tool_registry_log_mb": Field(
        "number", 1_000.0, "how many megabytes of calls of a tool registry are kept at most; 0: any number"
    ),
    "tool_registry_body_bytes": Field(
        "integer", 1_000_000, "the longest body of a request to a tool registry"
    ),
    "tool_registry_timeout_s": Field(
        "number", 600.0, "seconds a call over a tool registry may take whose tool has no time of its own"
    ),
    "tool_registry_at_once": Field(
        "list",
        [],
        "how many calls of a tool a registry runs at once, as `run=4`; `*=16` for each of the others",
    ),
    "tool_registry_entry_points": Field(
        "list",
        [],
        "which functions, package.module:function with * for any, may be put into a tool registry over HTTP",
    ),
    "system_prompt": Field("text", None, "replaces the base system prompt"),
    "local_model": Field("text", None, "a GGUF file for the embedded model instead of the pinned one"),
}
