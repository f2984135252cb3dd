"""The functions and constants an expression may use, each safe for any arguments."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from jaato.tools.arithmetic.numbers import (
    MAX_BITS,
    TOO_LARGE,
    Number,
    Unsolvable,
    brief,
    divided,
    exact_root,
    floor_root,
    power,
    settled,
)

MAX_FACTORIAL = 3_249
"""The largest whose factorial has at most 10,000 digits."""
MAX_MODULAR_BITS = 4_096
"""The largest in use; ten times as many would take a minute, in which nothing else runs."""
CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e, "tau": math.tau, "phi": (1 + 5**0.5) / 2}


def whole(value: Number, name: str) -> int:
    """The value as an integer; raises `Unsolvable` when it is none."""
    if not isinstance(value, int):
        raise Unsolvable(f"{name} takes whole numbers, and {brief(value)} is none.")
    return value


def root(value: Number, degree: int, name: str) -> Number:
    """A square or cube root, exact when it is rational."""
    if value < 0 and degree % 2 == 0:
        raise Unsolvable(f"{name} of a negative number is not real.")
    if not isinstance(value, float):
        exact = exact_root(value, degree)
        if exact is not None:
            return settled(exact)
        if not -(10**300) < value < 10**300:
            near = float(floor_root(abs(value.numerator) // value.denominator, degree))
            return near if value > 0 else -near
    return math.copysign(abs(float(value)) ** (1 / degree), float(value)) if degree > 2 else math.sqrt(value)


def logarithm(value: Number, base: Number = math.e) -> Number:
    """The logarithm, natural unless a base is given; exact when it is whole. Raises `Unsolvable`."""
    if value <= 0 or base <= 0 or base == 1:
        raise Unsolvable("A logarithm takes a number above 0, and a base above 0 that is not 1.")
    if base == math.e:
        return log_of(value)
    found = (
        math.log10(value) if base == 10 and not isinstance(value, Fraction) else log_of(value) / log_of(base)
    )
    near = round(found)
    exact = not isinstance(value, float) and not isinstance(base, float) and abs(found - near) < 1e-9
    return near if exact and power(base, near) == value else found


def log_of(value: Number) -> float:
    """The natural logarithm of a positive number, also of one that floating point cannot hold."""
    if isinstance(value, Fraction):
        return math.log(value.numerator) - math.log(value.denominator)
    return math.log(value)


def factorial(value: Number) -> Number:
    """n!"""
    number = whole(value, "factorial")
    if number < 0:
        raise Unsolvable("factorial takes 0 and above.")
    if number > MAX_FACTORIAL:
        raise Unsolvable(TOO_LARGE)
    return math.factorial(number)


def choose(name: str, function: Callable[[int, int], int], n: Number, k: Number) -> Number:
    """`comb` and `perm`, refused before they grow too large."""
    top, taken = whole(n, name), whole(k, name)
    if top < 0 or taken < 0:
        raise Unsolvable(f"{name} takes 0 and above.")
    if taken > top:
        return 0
    if top.bit_length() > 1_000:
        raise Unsolvable(TOO_LARGE)
    steps = min(taken, top - taken) if name == "comb" else taken
    lower = steps * max(top.bit_length() - 1 - (steps.bit_length() if name == "comb" else 1), 0) // 2
    if steps > MAX_BITS or lower > MAX_BITS:
        raise Unsolvable(TOO_LARGE)
    return settled(function(top, taken))


def rounded(value: Number, places: Number = 0) -> Number:
    """Rounded to so many places, halves to even."""
    count = whole(places, "round")
    if abs(count) > 1_000:
        raise Unsolvable("round takes at most 1,000 places.")
    result: object = round(value, count)
    return settled(result)


def total(*values: Number) -> Number:
    """The sum."""
    result: Number = 0
    for value in values:
        result = settled(result + value)
    return result


def product(*values: Number) -> Number:
    """The product."""
    result: Number = 1
    for value in values:
        result = settled(result * value)
    return result


def some(name: str, function: Callable[[Any], Any], least: int = 1) -> Callable[..., Number]:
    """A function of a list of numbers, exact when they all are."""

    def apply(*values: Number) -> Number:
        if len(values) < least:
            raise Unsolvable(f"{name} takes at least {least} number{'s' if least > 1 else ''}.")
        rough = any(isinstance(value, float) for value in values)
        return settled(function([float(value) if rough else Fraction(value) for value in values]))

    return apply


def variance(values: list[Any], less: int) -> Number:
    """The squared deviations divided by the count less `less`; exact numbers are refused as soon as one grows too large."""
    if isinstance(values[0], float):
        return float(statistics.variance(values) if less else statistics.pvariance(values))
    mean = divided(total(*values), len(values))
    away: list[Number] = [value - mean for value in values]
    squares = [settled(one * one) for one in away]
    return settled(divided(total(*squares), len(values) - less))


def real(function: Callable[..., float]) -> Callable[..., Number]:
    """A function of floating point."""

    def apply(*values: Number) -> Number:
        return function(*(float(value) for value in values))

    return apply


def integers(name: str, function: Callable[..., int]) -> Callable[..., Number]:
    """A function of whole numbers."""

    def apply(*values: Number) -> Number:
        return settled(function(*(whole(value, name) for value in values)))

    return apply


def multiple(*values: Number) -> Number:
    """The least common multiple, refused as soon as it grows too large."""
    result = 1
    for value in values:
        result = whole(settled(math.lcm(result, whole(value, "lcm"))), "lcm")
    return result


def modular(base: Number, exponent: Number, modulus: Number | None = None) -> Number:
    """A power, with a modulus if one is given."""
    if modulus is None:
        return power(base, exponent)
    one, other, third = (whole(value, "pow") for value in (base, exponent, modulus))
    if third == 0:
        raise Unsolvable("Division by zero: the modulus of pow is 0.")
    if third.bit_length() > MAX_MODULAR_BITS or other.bit_length() > MAX_MODULAR_BITS:
        raise Unsolvable(f"pow with a modulus takes exponents and moduli of up to {MAX_MODULAR_BITS} bits.")
    try:
        return pow(one, other, third)
    except ValueError:
        raise Unsolvable(f"{brief(one)} has no inverse modulo {brief(third)}.") from None


def shift(name: str, value: Number, by: Number) -> Number:
    """A number shifted by bits."""
    number, count = whole(value, name), whole(by, name)
    if count < 0:
        raise Unsolvable(f"{name} takes a distance of 0 and above.")
    if name == "<<" and number.bit_length() + count > MAX_BITS:
        raise Unsolvable(TOO_LARGE)
    return number << count if name == "<<" else number >> count


REALS = "exp sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh degrees radians hypot gamma erf".split()

FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{name: real(getattr(math, name)) for name in REALS},
    "abs": abs,
    "round": rounded,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "sqrt": lambda value: root(value, 2, "sqrt"),
    "cbrt": lambda value: root(value, 3, "cbrt"),
    "log": logarithm,
    "ln": logarithm,
    "log10": lambda value: logarithm(value, 10),
    "log2": lambda value: logarithm(value, 2),
    "factorial": factorial,
    "comb": lambda n, k: choose("comb", math.comb, n, k),
    "perm": lambda n, k: choose("perm", math.perm, n, k),
    "pow": modular,
    "gcd": integers("gcd", math.gcd),
    "lcm": multiple,
    "xor": integers("xor", lambda one, other: one ^ other),
    "min": some("min", min),
    "max": some("max", max),
    "sum": total,
    "prod": product,
    "mean": some("mean", lambda values: divided(total(*values), len(values))),
    "median": some("median", statistics.median),
    "stdev": some("stdev", lambda values: math.sqrt(variance(values, 1)), 2),
    "pstdev": some("pstdev", lambda values: math.sqrt(variance(values, 0))),
    "variance": some("variance", lambda values: variance(values, 1), 2),
}
