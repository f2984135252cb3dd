"""Numbers that stay exact while they can, and never grow beyond a bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

from jaato.errors import ToolError

Exact = int | Fraction
Number = int | Fraction | float
"""Booleans are their own kind and no numbers here."""

MAX_BITS = 33_219
"""Of a numerator or denominator: 10,000 decimal digits."""
SHOWN_DIGITS = 30
MAX_TERMINATING = 60
TOO_LARGE = "The result has more than 10,000 digits. Work with logarithms, or ask for a smaller one."


class Unsolvable(ToolError):
    """The expression has no value that can be given."""

    code = "calculation_failed"


def settled(value: object) -> Number:
    """A number within the bounds: a whole fraction becomes an integer. Raises `Unsolvable`."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction | float):
        raise Unsolvable(f"{shown_kind(value)} is no number, and only numbers can be calculated with.")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unsolvable("The result is infinite or undefined. Check the arguments.")
        return value
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    top = value if isinstance(value, int) else value.numerator
    bottom = 1 if isinstance(value, int) else value.denominator
    if top.bit_length() > MAX_BITS or bottom.bit_length() > MAX_BITS:
        raise Unsolvable(TOO_LARGE)
    return value


def shown_kind(value: object) -> str:
    """What a value is, for a message."""
    return {bool: "True or False", list: "A list", str: "A text"}.get(type(value), type(value).__name__)


def literal(text: str) -> Number:
    """The number a literal means, exactly: 0.1 is one tenth. Raises `Unsolvable`."""
    plain = text.replace("_", "").lower()
    if plain.startswith(("0x", "0o", "0b")):
        return settled(int(plain, 0))
    mantissa, _, exponent = plain.partition("e")
    if exponent and abs(int(exponent)) > MAX_BITS // 3:
        raise Unsolvable(TOO_LARGE)
    return settled(Fraction(plain) if "." in mantissa or exponent else int(plain))


def combined(operation: Callable[[Number, Number], object], left: Number, right: Number) -> Number:
    """The result of an operation of two numbers. Raises `Unsolvable`."""
    try:
        return settled(operation(left, right))
    except ZeroDivisionError:
        raise Unsolvable("Division by zero.") from None
    except OverflowError:
        raise Unsolvable(TOO_LARGE) from None


def divided(left: Number, right: Number) -> object:
    """True division: exact for exact numbers."""
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    return Fraction(left) / Fraction(right)


def power(base: Number, exponent: Number) -> Number:
    """A power, known to be small enough before it is worked out. Raises `Unsolvable`."""
    if isinstance(base, float) or isinstance(exponent, float):
        return rough(base, exponent)
    if isinstance(exponent, Fraction):
        root = exact_root(base, exponent.denominator)
        return rough(base, exponent) if root is None else power(root, exponent.numerator)
    if base == 0 and exponent < 0:
        raise Unsolvable("Division by zero: 0 to a negative power.")
    size = max(Fraction(base).numerator.bit_length(), Fraction(base).denominator.bit_length())
    if size > 1 and abs(exponent) * (size - 1) > MAX_BITS:
        raise Unsolvable(TOO_LARGE)
    if size <= 1:  # 0, 1 and -1, whose powers are at hand for any exponent
        return settled(base if exponent % 2 or (base == 0 and exponent) else 1)
    return settled(Fraction(base) ** exponent)


def rough(base: Number, exponent: Number) -> float:
    """A power in floating point."""
    try:
        value: object = float(base) ** float(exponent)
    except ZeroDivisionError:
        raise Unsolvable("Division by zero: 0 to a negative power.") from None
    except OverflowError:
        raise Unsolvable("The result is too large for floating point. Use whole exponents.") from None
    if not isinstance(value, float):
        raise Unsolvable("A root of a negative number is not real.")
    return value


def exact_root(base: Exact, degree: int) -> Exact | None:
    """The root of this degree when it is rational, else None."""
    value = Fraction(base)
    if degree > 64:
        return None
    if value < 0:
        inner = exact_root(-value, degree) if degree % 2 else None
        return None if inner is None else -inner
    top, bottom = whole_root(value.numerator, degree), whole_root(value.denominator, degree)
    return None if top is None or bottom is None else Fraction(top, bottom)


def whole_root(value: int, degree: int) -> int | None:
    """The whole root of a whole number that is not negative, None when there is none."""
    root = floor_root(value, degree)
    return root if root**degree == value else None


def floor_root(value: int, degree: int) -> int:
    """The largest whole number whose power is not above a whole number that is not negative."""
    if degree == 1 or value < 2:
        return value
    if degree == 2:
        return math.isqrt(value)
    root = 1 << -(-value.bit_length() // degree)  # not below it, from where Newton's steps only go down
    while True:
        lower = ((degree - 1) * root + value // root ** (degree - 1)) // degree
        if lower >= root:
            return root
        root = lower


def brief(value: Number) -> str:
    """A number for a message."""
    top = value.numerator if isinstance(value, Fraction) else value
    if isinstance(top, int) and top.bit_length() > 128:
        return f"a number of {math.ceil(top.bit_length() * math.log10(2))} digits"
    return str(value)[:40]


def digits(value: int) -> str:
    """A whole number in decimal, however long."""
    return format(Decimal(value), "f")


def shown(value: Number) -> str:
    """A number in decimal: all digits when they end, else the first thirty."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return digits(value)
    top, bottom = Decimal(value.numerator), Decimal(value.denominator)
    if terminates(value.denominator):
        exact = Context(prec=20_000).divide(top, bottom)
        text = format(exact, "f")
        if len(text) <= MAX_TERMINATING:
            return text
    rounded = Context(prec=SHOWN_DIGITS).divide(top, bottom)
    return str(rounded.normalize(Context(prec=SHOWN_DIGITS)))


def terminates(denominator: int) -> bool:
    """Whether a fraction with this denominator has finitely many decimals, and not very many."""
    if denominator.bit_length() > 400:
        return False
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    return denominator == 1
