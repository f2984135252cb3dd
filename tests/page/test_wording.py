"""The page and the clients at a terminal use the same words for the same thing."""

from __future__ import annotations

import itertools
import json
from typing import Any, get_args, get_type_hints

import pytest
from tests.page.node import run_node

from jaato.agent.inbox import add_label
from jaato.cli.output.answers import ANSWER_WORDS, late_answer_text, other_answer_text
from jaato.cli.output.wording import (
    call_text,
    compaction_text,
    event_lines,
    progress_lines,
    retry_text,
    summary_line,
    turn_end_lines,
    usage_text,
)
from jaato.protocol.codec import encode
from jaato.protocol.events import (
    BudgetUpdated,
    ClarificationResolved,
    GcCompleted,
    Permission,
    PermissionResolved,
    Retry,
    TurnCompleted,
    WaypointUpdated,
)
from jaato.protocol.messages import Message, Problem, Source, Text, Usage
from jaato.protocol.specs import Waypoint
from jaato.settings.budgets import price_text
from jaato.tui.status_line import abbreviate_count
from jaato.tui.transcript.blocks import format_duration

HEAD: dict[str, Any] = {"session_id": "s", "agent_id": "a", "seq": 1}
PROBLEM = Problem("rate_limited", "Too many requests.\n\x1b[2J", retryable=True)
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"command": "ls -l", "need": ["write"], "timeout": 2.5},
    {"path": "a b.txt", "offset": 3, "whole": True, "nothing": None},
    {"text": "one\ntwo", "empty": "", "long": "x" * 200, "spaced": "y " * 80, "quoted": "say \"hi\" 'you'"},
    {"edits": [{"path": "ä", "old": "1"}] * 9},
]


def turn(reason: Any, **more: Any) -> TurnCompleted:
    """The end of a turn."""
    given: dict[str, Any] = {
        "tool_calls": 1,
        "usage": Usage(input_tokens=4_800, output_tokens=320, cached_input_tokens=3_600),
        "duration_s": 8.26,
    }
    return TurnCompleted(turn_id="t", reason=reason, model_calls=2, **(HEAD | given | more))


def ask_page(*asked: tuple[Any, ...]) -> list[str]:
    """What the functions of the page give."""
    lines = "".join(encode(list(one)).decode() + "\n" for one in asked)
    return [json.loads(line) for line in run_node("tests/wording.ts", text=lines).splitlines()]


@pytest.mark.parametrize("answer", [*ANSWER_WORDS, "yes"])
def test_answers(answer: str) -> None:
    """Who answered what, and that it was before."""
    permission = Permission("denied", "use\na test", "user_denied")
    event = PermissionResolved(
        question_id="q", call_id="c", answer=answer, permission=permission, by="ana", **HEAD
    )
    here = [other_answer_text(event), late_answer_text("ana", answer), late_answer_text("", answer)]
    assert ask_page(("otherAnswer", event), ("lateAnswer", "ana", answer), ("lateAnswer", "", answer)) == here


def test_an_answer_to_the_models_questions() -> None:
    """Each answer in its order."""
    event = ClarificationResolved(
        question_id="q", qa_pairs=[("Which?", "red"), ("Why?", None)], by="ana", **HEAD
    )
    assert ask_page(("otherAnswer", event)) == [other_answer_text(event)]
    assert other_answer_text(event) == "ana answered: red; (no answer)"


@pytest.mark.parametrize("source", get_args(Source))
def test_labels_of_sources(source: Source) -> None:
    """What the model reads before a message that no user wrote is not shown; the user's own text is left alone."""
    here = "[system] Hello." if source == "user" else "Hello."
    message = Message("user", [Text(add_label(here, source))], source=source)
    assert ask_page(("wordsOf", message)) == [here]


def test_calls() -> None:
    """The same line for the same arguments."""
    here = [call_text("tool", given, 10_000).removeprefix("tool").strip() for given in ARGUMENTS]
    assert ask_page(*(("argumentsText", given) for given in ARGUMENTS)) == here


def test_ends_of_turns() -> None:
    """Every reason, with an error and without."""
    reasons = get_args(get_type_hints(TurnCompleted)["reason"])
    assert len(reasons) > 5
    ends = [turn(reason) for reason in reasons] + [turn("error", error=PROBLEM), turn("limit", error=PROBLEM)]
    here = ["".join(text for text, _ in turn_end_lines(end)) for end in ends]
    assert ask_page(*(("turnEnd", end) for end in ends)) == here


def test_what_turns_have_used() -> None:
    """With subagents, without a price, without calls."""
    cases = [
        (turn("stop", cost_usd=0.0256), []),
        (turn("stop", cost_usd=None, tool_calls=0), []),
        (turn("stop", cost_usd=1_234.5), [turn("stop", cost_usd=0.0, tool_calls=3)]),
        (turn("stop", usage=Usage(), cost_usd=0.0), [turn("stop", cost_usd=None)]),
        (turn("stop", usage=Usage(input_tokens=1, output_tokens=1), cost_usd=0.0, tool_calls=1), []),
    ]
    here = [summary_line([one], "", inner).removesuffix(", session ") for one, inner in cases]
    assert ask_page(*(("turnSummary", one, inner) for one, inner in cases)) == here
    assert here[-1] == "1 token in, 1 out, $0, 8.3 s, 1 call"
    assert ask_page(("usageText", cases[0][0].usage)) == [usage_text(cases[0][0].usage)]


def test_numbers() -> None:
    """Prices, tokens and durations have the same digits."""
    prices = [None, 0, 0.00004, 0.0123, 0.5, 0.99996, 1, 12.345, 1_234.5]
    counts = [0, 999, 1_000, 1_234, 9_999, 12_345, 99_999, 100_000, 999_499, 1_000_000, 12_345_678]
    times = [0, 0.0123, 0.0999, 0.1, 0.94, 59.94, 60, 119.9, 3_600, 7_325.5]
    assert ask_page(*(("price", one) for one in prices)) == list(map(price_text, prices))
    assert ask_page(*(("tokens", one) for one in counts)) == list(map(abbreviate_count, counts))
    assert ask_page(*(("duration", one) for one in times)) == list(map(format_duration, times))


def test_what_happens_beside_the_conversation() -> None:
    """Retries, compactions and budgets."""
    retries = [
        Retry(attempt=1, max_attempts=3, wait_s=wait, error=PROBLEM, **HEAD) for wait in (0.5, 1, 12.3456)
    ]
    assert ask_page(*(("retryText", one) for one in retries)) == list(map(retry_text, retries))
    compactions = [
        GcCompleted(strategy="summary", reason="window", tokens_before=12_000, tokens_after=900, **HEAD),
        GcCompleted(strategy="clear", reason="window", tokens_before=9, tokens_after=8, cleared=3, **HEAD),
        GcCompleted(strategy="clear", reason="window", tokens_before=9, tokens_after=1, cleared=1, **HEAD),
        GcCompleted(
            strategy="clear", reason="asked", tokens_before=9, tokens_after=9, problem="No\nroom.", **HEAD
        ),
    ]
    assert ask_page(*(("compactionText", one) for one in compactions)) == list(
        map(compaction_text, compactions)
    )
    assert compaction_text(compactions[2]).startswith(
        "context compacted, 9 to about 1 token, 1 tool result cleared ("
    )
    units: list[tuple[Any, float]] = [
        ("tokens", 50_000),
        ("tokens", 1),
        ("usd", 2),
        ("usd", 0.5),
        ("s", 5_400),
        ("s", 90.5),
        ("s", 7_200),
    ]
    budgets = [
        BudgetUpdated(status="extended", scope="turn", unit=unit, limit=limit, used=0, step=1, **HEAD)
        for unit, limit in units
    ]
    here = [text for one in budgets for text, _ in event_lines(one, 100, verbose=False)]
    assert ask_page(*(("budgetText", one) for one in budgets)) == here


def test_what_becomes_of_waypoints() -> None:
    """A restore, and what the agent did; nothing for what commands of the user show, such as `/undo`."""
    cases = itertools.product(
        get_args(get_type_hints(WaypointUpdated)["action"]),
        get_args(get_type_hints(Waypoint)["owner"]),
        (False, True),
    )
    events = [
        WaypointUpdated(
            action=action,
            waypoint=Waypoint(id="w1", description="before\nit", owner=owner, parent="w0", ceiling=ceiling),
            current="w1",
            **HEAD,
        )
        for action, owner, ceiling in cases
    ]
    here = ["".join(text for text, _ in progress_lines(one, 100)) for one in events]
    assert len(set(here)) > 3
    assert ask_page(*(("waypointText", one) for one in events)) == here
