"""`calculate`: exact where it can be, and at once whatever it is asked."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.arithmetic import evaluate
from jaato.plugins.calculation import CalculationPlugin

WHOLE = st.integers(-(10**12), 10**12)


def value(expression: str, path: Path = Path("/tmp")) -> Any:
    """What the tool gives as the value."""
    return Desk(CalculationPlugin, path).call("calculate", expression=expression)["value"]


def test_the_work_grows_with_the_expression_and_no_faster() -> None:
    """Each number of a long sum is read where it stands, not by going through the whole text again; lines do not matter."""
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    def worked(numbers: int) -> int:
        nonlocal steps
        steps = 0
        gc.collect()  # what an earlier test has dropped calls its finalizers at any time
        sys.setprofile(count)
        try:
            found = evaluate("(" + "+\r\n".join(["1"] * numbers) + ")")
        finally:
            sys.setprofile(None)
        assert found == numbers
        return steps

    assert worked(800) < 10 * worked(100)
    assert evaluate("(1.5 +\r 22 *\n\u00d7".replace("*\n", "") + " 2)") == Fraction(91, 2)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("0.1 + 0.2", "0.3"),
        ("2**100", str(2**100)),
        ("19.99 * 3 - 5%3", "57.97"),
        ("7 // -2", "-4"),
        ("-7 % 3", "2"),
        ("1_000 * 1.08**2", "1166.4"),
        ("0xff & 0b1010", "10"),
        ("sqrt(16) + cbrt(27)", "7"),
        ("8 ** (1/3)", "2"),
        ("log10(1000) + log2(1/8) + log(81, 3)", "4"),
        ("factorial(20) // comb(20, 10)", str(math.factorial(20) // math.comb(20, 10))),
        ("gcd(84, 36) + lcm(4, 6)", "24"),
        ("pow(7, 10**100, 13)", str(pow(7, 10**100, 13))),
        ("round(2.675, 2)", "2.68"),
        ("mean([1, 2, 3, 4]) + median(1, 2)", "4"),
        ("variance(1, 2, 3, 4) * 3", "5"),
        ("max(1, 2.5) if 3 > 2 > 1 and not 1 == 2 else 0", "2.5"),
        ("2 \u00d7 3 \u00f7 4 \u2212 1", "0.5"),
        ("1e-7", "0.0000001"),
        ("(-8) ** (1/3)", "-2"),
        ("prod(1, 2, 3) + sum([4, 5])", "15"),
        ("+".join(str(one) for one in range(1_000)), str(sum(range(1_000)))),
        ("100 - " + " - ".join(["1"] * 90), "10"),
        ("2 ** 3 ** 2 - 2 * 3 * 4 / 8 + 1", "510"),
        ("max(100,200,300)", "300"),
        ("cbrt(7**15) + (-27 / 8) ** (1 / 3)", "16805.5"),
    ],
)
def test_arithmetic_is_exact(expression: str, wanted: str) -> None:
    """Whole numbers, decimals and rational roots come out to the last digit."""
    assert value(expression) == wanted


def test_roots_of_what_floating_point_cannot_hold() -> None:
    """A root that floating point can hold is given, however large the number is."""
    assert math.isclose(float(value("sqrt(10**400 + 1)")), 1e200, rel_tol=1e-9)
    assert math.isclose(float(value("cbrt(-10**600 - 1)")), -1e200, rel_tol=1e-9)
    assert math.isclose(float(value("cbrt(-2.5)")), -1.3572088082974532)


def test_an_expression_that_takes_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps an expression has, its time has an end."""
    monkeypatch.setattr("jaato.plugins.arithmetic.MAX_S", -1.0)
    with pytest.raises(ToolError, match="takes more than"):
        evaluate("1 + 1")


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("sin(pi / 6)", 0.5),
        ("exp(1)", math.e),
        ("sqrt(2)", 2**0.5),
        ("hypot(1, 1)", 2**0.5),
        ("stdev(1, 2, 4)", 1.5275),
    ],
)
def test_what_is_not_rational_is_approximate_and_says_so(expression: str, wanted: float) -> None:
    """Floating point is used where it must be, and the answer says that it is approximate."""
    said = Desk(CalculationPlugin, Path("/tmp")).call("calculate", expression=expression)
    assert said["approximate"] is True
    assert math.isclose(float(said["value"]), wanted, rel_tol=1e-4)


def test_a_fraction_without_end_is_given_as_such() -> None:
    """One third has thirty decimals and its fraction beside them."""
    said = Desk(CalculationPlugin, Path("/tmp")).call("calculate", expression="2/3")
    assert said == {
        "expression": "2/3",
        "value": "0." + "6" * 29 + "7",
        "fraction": "2/3",
        "approximate": True,
    }


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("9**9**9", "10,000 digits"),
        ("9**9**9**9", "10,000 digits"),
        ("2**(2**64)", "10,000 digits"),
        ("(1/3)**1000000", "10,000 digits"),
        ("1 << 10**9", "10,000 digits"),
        ("1e999999999", "10,000 digits"),
        ("factorial(10**9)", "10,000 digits"),
        ("comb(10**6, 5 * 10**5)", "10,000 digits"),
        ("perm(10**300, 200)", "10,000 digits"),
        ("(" * 250 + "1" + ")" * 250, "nested"),
        ("-" * 3_900 + "1", "nested"),
        ("1,234,567*2", "Write 1234567"),
        ("1,000 + 1", "Write 1000"),
        ("sum(1,000, 2)", "Write 1000"),
        ("pow(2**33000-1, 2**33000-1, 2**33000-3)", "4096 bits"),
        ("gcd(10**5000 + 1, 1.5)", "3/2 is none"),
        ("gcd(10**5000/3, 1)", "5001 digits is none"),
        ("sqrt(-10**5000)", "negative"),
        ("sin(10**5000)", "a number of 5001 digits"),
        ("exp(1000)", "too large for floating point"),
        ("1 << -1", "no value"),
        ("1 in [1]", "not part of arithmetic"),
        ("max(*[1])", "not part of arithmetic"),
        ("round(1, places=2)", "not part of arithmetic"),
        ("lcm(" + ",".join(f"2**{33_000 - one}+{one}" for one in range(200)) + ")", "10,000 digits"),
        ("pow(10**5000, -1, 10)", "no inverse"),
        ("1" * 4_000 + "0", "characters"),
        ("1/0", "Division by zero"),
        ("0 ** -1", "Division by zero"),
        ("5 % 0.0", "Division by zero"),
        ("(-1) ** 0.5", "not real"),
        ("sqrt(-4)", "not real"),
        ("acos(2)", "no value"),
        ("1.5 & 1", "whole numbers"),
        ("2 ^ 3", "**"),
        ("__import__('os').system('x')", "not part of arithmetic"),
        ("(lambda: 1)()", "not part of arithmetic"),
        ("[x for x in (1,)]", "not part of arithmetic"),
        ("().__class__", "not part of arithmetic"),
        ("open('x')", "no function open"),
        ("x + 1", "no known name"),
        ("'a' * 10**9", "not part of arithmetic"),
        ("[1] * 10**9", "no number"),
        ("f'{1}'", "not part of arithmetic"),
        ("1j * 2", "not part of arithmetic"),
        ("sin()", "does not take 0"),
        ("max()", "at least 1"),
        ("round(1.5, 10**9)", "1,000 places"),
        ("True + 1", "no number"),
        ("2 +", "no expression"),
        ("", "no expression"),
        ("1 if", "no expression"),
        ("nan", "no known name"),
    ],
)
def test_hostile_and_wrong_expressions_end_with_a_reason(expression: str, says: str) -> None:
    """Nothing is run, nothing grows without bound, and the message says what is wrong."""
    with pytest.raises(ToolError, match="(?s)" + ".*".join(map(_quoted, says.split()))):
        evaluate(expression)


def _quoted(word: str) -> str:
    import re

    return re.escape(word)


@given(WHOLE, WHOLE, st.sampled_from(["+", "-", "*", "/", "//", "%"]))
def test_exact_operators_agree_with_fractions(left: int, right: int, sign: str) -> None:
    """Each operator gives what the rational numbers do."""
    if right == 0 and sign in "//%":
        right = 1
    operations = {
        "+": left + right, "-": left - right, "*": left * right, "/": Fraction(left, right or 1),
        "//": left // (right or 1), "%": left % (right or 1),
    }  # fmt: skip
    assert evaluate(f"({left}) {sign} ({right})") == operations[sign]


@given(st.text(max_size=60))
def test_any_text_gives_a_value_or_a_reason(text: str) -> None:
    """No text makes anything but a value or a `ToolError`."""
    with contextlib.suppress(ToolError):
        evaluate(text)
