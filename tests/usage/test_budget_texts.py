"""How budgets are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.agent.limits.budget_account import parse_answer
from jaato.errors import ConfigError
from jaato.settings.budgets import format_amount, parse_amount, parse_budgets, price_text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("50k tokens, $2, 10m per turn", {"turn_tokens": 50_000, "turn_usd": 2, "turn_s": 600}),
        ("$2", {"session_usd": 2}),
        ("50,000 tokens per turn, $5 per day", {"turn_tokens": 50_000, "day_usd": 5}),
        ("1.5M tokens per day", {"day_tokens": 1_500_000}),
        ("2m tokens", {"session_tokens": 2_000_000}),
        ("1h30m/day", {"day_s": 5_400}),
        ("90s a prompt and 0.5 usd per run", {"turn_s": 90, "session_usd": 0.5}),
    ],
)
def test_budgets_as_people_write_them(text: str, found: dict[str, float]) -> None:
    """Amounts with units, scopes with `per`; without a scope it is that of the next, else the session."""
    assert parse_budgets([text]).settings == {f"budget_{name}": value for name, value in found.items()}


@pytest.mark.parametrize(
    "text",
    ["", ",", "10", "$", "5 parsecs", "$0", "0 tokens per turn", "$2 per week", "more $2", "-5k"],
)
def test_what_is_no_budget(text: str) -> None:
    """It is refused with an example."""
    with pytest.raises(ConfigError, match=r"budget|above zero"):
        parse_budgets([text])


@pytest.mark.parametrize("unit", ["tokens", "usd", "h"])
def test_a_number_of_hundreds_of_digits_is_no_budget(unit: str) -> None:
    """It is refused like any other text that is no amount."""
    with pytest.raises(ConfigError, match="is not understood"):
        parse_budgets([f"{'9' * 400} {unit}"])


def test_more_and_off() -> None:
    """`more` stands beside other budgets; `off` sets every limit to none."""
    assert parse_budgets(["more", "$2"]) == ({"budget_session_usd": 2.0}, True)
    assert set(parse_budgets(["off"]).settings.values()) == {0}


@pytest.mark.parametrize(
    "texts",
    [["$2", "$5"], ["$2, $5"], ["$2 per session, 10k tokens, $3"], ["off", "5k per day", "6k tokens a day"]],
)
def test_two_budgets_of_one_kind_are_refused(texts: list[str]) -> None:
    """Neither the first nor the last is chosen silently; the error names both."""
    with pytest.raises(
        ConfigError, match=r"Two budgets per (session|day) are given, \S+.* and \S+.*: give one"
    ):
        parse_budgets(texts)


def test_a_budget_that_is_given_twice_alike_is_one() -> None:
    """The same amount again is no contradiction, nor are two units or two scopes."""
    assert parse_budgets(["$2", "2 usd", "$2 per day", "off", "$3"]).settings["budget_session_usd"] == 3
    assert parse_budgets(["$2", "2 usd", "$5 per day, 5k"]).settings == {
        "budget_session_usd": 2,
        "budget_day_usd": 5,
        "budget_session_tokens": 5_000,
    }


@pytest.mark.parametrize(
    ("answer", "unit", "allowed"),
    [
        ("2", "usd", 2),
        ("0.5", "usd", 0.5),
        ("2000", "tokens", 2_000),
        ("25,000", "tokens", 25_000),
        ("continue", "tokens", 10),
        ("yes", "usd", 10),
        ("continue with 10 tokens more", "tokens", 10),
        ("more 20k", "tokens", 20_000),
        ("stop", "usd", 0),
        (" No ", "usd", 0),
        ("", "s", 0),
        (None, "s", 0),
        ("0", "usd", 0),
        ("10", "s", None),
        ("10m", "s", 600),
        ("2k", "usd", None),
        ("$2", "tokens", None),
        ("-5", "usd", None),
        ("²", "usd", None),
        ("a bit", "tokens", None),
        ("continue please", "tokens", None),
    ],
)
def test_what_an_answer_allows(answer: str | None, unit: Any, allowed: float | None) -> None:
    """A plain number has the unit of the budget, but for time; what is not understood is asked again."""
    assert parse_answer(answer, ("turn", unit), 10.0) == allowed


def test_an_answer_of_hundreds_of_digits_is_no_amount() -> None:
    """It is asked again, like any other answer that is not understood."""
    assert parse_answer(f"{'9' * 400} tokens", ("turn", "tokens"), 5.0) is None
    assert parse_answer("9,000 tokens", ("turn", "tokens"), 5.0) == 9_000


@given(st.sampled_from(["tokens", "usd", "s"]), st.integers(1, 10**7))
def test_amounts_are_read_as_they_are_shown(unit: Any, value: int) -> None:
    """What a question shows can be typed as its answer."""
    assert parse_amount(format_amount(unit, value)) == (unit, value)


def test_a_price_is_worded_in_one_way() -> None:
    """No price, an unknown one, small and large ones, and one to which unknown ones are added."""
    assert [price_text(one) for one in (None, 0, 0.01234, 1234.5)] == [
        "price unknown",
        "$0",
        "$0.0123",
        "$1,234.50",
    ]
    assert price_text(2.0, is_partial=True) == "at least $2.00"
