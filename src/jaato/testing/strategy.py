"""Conformance of a GC strategy: its verdict, the history it leaves, and that it fails at nothing."""

from __future__ import annotations

import functools
from typing import Any

from jaato.abc.compactor import GCConfig, GCResult, SummarizingGCPlugin
from jaato.agent.compaction.engine import check_collected, check_question, check_verdict
from jaato.agent.compaction.history import positions
from jaato.errors import JaatoError
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.runtime.plugins.isolation import run_bounded
from jaato.runtime.plugins.named import GC_PLUGINS
from jaato.testing.report import Report

STEP_S = 30.0
TURNS = 12


def check_strategy(plugin: Any, config: dict[str, Any], report: Report) -> None:
    """Hold a strategy against the rules."""
    name = report.name
    try:
        strategy = GC_PLUGINS.made(plugin, name)
        run_bounded(STEP_S, lambda: strategy.initialize(config), "initialize()")
        settings = GCConfig(threshold_percent=80.0, preserve_recent_turns=2)
        for percent in (0.0, 50.0, 100.0):
            ask = functools.partial(strategy.should_collect, usage_at(percent), settings)
            wanted, reason = check_verdict(run_bounded(STEP_S, ask, "should_collect()"))
            if wanted and not reason:
                report.advise("verdict", name, "says no reason; the log shows it")
            if percent == 0.0 and wanted:
                report.error("verdict", name, "wants to collect an empty context")
        for history in ([], conversation()):
            check_collection(strategy, history, settings, report)
        run_bounded(STEP_S, strategy.shutdown, "shutdown()")
    except JaatoError as error:
        report.error("strategy", name, str(error))


def check_collection(strategy: Any, history: list[Message], settings: GCConfig, report: Report) -> None:
    """What it leaves is a history: known messages in their order, and new ones that can be stored."""
    usage = usage_at(95.0)
    reason = "the context is 95 % full"
    if isinstance(strategy, SummarizingGCPlugin):
        copy = list(history)
        question = check_question(
            run_bounded(STEP_S, lambda: strategy.question(copy, usage, settings), "question()")
        )
        if question is not None:
            collected = run_bounded(
                STEP_S,
                lambda: strategy.collect_with("All is well.", copy, usage, settings, reason),
                "collect_with()",
            )
            positions(history, check_collected(collected)[0])
    shown = list(history)
    given = run_bounded(STEP_S, lambda: strategy.collect(shown, usage, settings, reason), "collect()")
    proposed, result = check_collected(given)
    placed = positions(history, proposed)
    if history and result.success and len(placed) >= len(history):
        report.advise(
            "collect", report.name, f"left {TURNS} turns as they were in a context that is 95 % full"
        )
    if history and history[-2] not in placed.values():
        report.advise(
            "collect", report.name, "left out the newest turn; the session puts the user's words back"
        )
    if not isinstance(result, GCResult):
        report.error("collect", report.name, "gives no GCResult")


def usage_at(percent: float) -> dict[str, Any]:
    """What a strategy is shown of a context so full."""
    tokens = int(percent * 1_000)
    return {
        "model": "script",
        "context_limit": 100_000,
        "total_tokens": tokens,
        "percent_used": percent,
        "tokens_remaining": 100_000 - tokens,
        "turns": TURNS,
    }


def conversation() -> list[Message]:
    """Some turns, each with a call and its result."""
    history: list[Message] = []
    for n in range(TURNS):
        call = ToolCall(f"c{n}", "readFile", {"path": f"{n}.txt"})
        history += [
            Message("user", [Text(f"Read file {n}.")], id=f"m{n}u"),
            Message("assistant", [call], id=f"m{n}c"),
            Message("tool", [ToolResult(f"c{n}", "readFile", True, [Text("x" * 500)])], id=f"m{n}c-results"),
            Message("assistant", [Text(f"File {n} is full of x.")], id=f"m{n}a"),
        ]
    return [
        *history,
        Message("user", [Text("And now?")], id="last"),
        Message("assistant", [Text("Done.")], id="end"),
    ]
