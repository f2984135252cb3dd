"""The plugin `calculation`: the tool `calculate`."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, ClassVar

import msgspec

from jaato.abc.plugin import Plugin
from jaato.tools.tool import tool

MAX_FRACTION_CHARS = 200


class CalculationPlugin(Plugin):
    """Arithmetic without running code."""

    name: ClassVar[str] = "calculation"

    @tool(category="code", access="read")
    def calculate(
        self,
        expression: Annotated[
            str,
            msgspec.Meta(
                max_length=4000,
                description="Python operators; sqrt, log, sin, factorial, comb, gcd, mean, round, …; pi, e",
            ),
        ],
    ) -> dict[str, Any]:
        """Work out arithmetic instead of doing it in your head: sums, percentages, powers, statistics, big
        integers. Integers and decimals are exact (0.1+0.2 is 0.3). Returns the value, and the fraction when its
        decimals do not end."""
        from jaato.plugins.arithmetic import evaluate

        return {"expression": expression, **result_fields(evaluate(expression))}


def result_fields(value: Any) -> dict[str, Any]:
    """A value as the tool gives it: numbers as text, so that no digit is lost on the way."""
    from jaato.plugins.arithmetic import format_number

    if isinstance(value, bool):
        return {"value": value}
    if isinstance(value, list):
        return {"value": [result_fields(one)["value"] for one in value]}
    result: dict[str, Any] = {"value": format_number(value)}
    if isinstance(value, float):
        result["approximate"] = True
    elif isinstance(value, Fraction):
        fraction = f"{value.numerator}/{value.denominator}" if value.denominator < 10**100 else ""
        if Fraction(result["value"]) != value and 0 < len(fraction) <= MAX_FRACTION_CHARS:
            result["fraction"] = fraction
            result["approximate"] = True
    return result
