"""Evaluates arithmetic expressions with simpleeval: exact numbers where possible, all sizes bounded."""

from __future__ import annotations

import ast
import math
import operator
import re
import statistics
import time
import warnings
from collections.abc import Callable
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import Any

import simpleeval

from jaato.errors import ToolError

Number = int | Fraction | float
"""Booleans are their own kind and no numbers here."""
Value = Number | bool | list[Any]

MAX_CHARS = 4_000
MAX_S = 5.0
"""How long one expression is worked on; no single step takes long."""
MAX_BITS = 33_219
"""Of a numerator or denominator: 10,000 decimal digits."""
MAX_FACTORIAL = 3_249
"""The largest whose factorial has at most 10,000 digits."""
MAX_MODULAR_BITS = 4_096
"""The largest in use; ten times as many would take a minute, in which nothing else runs."""
SHOWN_DIGITS = 30
MAX_TERMINATING = 60
TOO_LARGE = "The result has more than 10,000 digits. Work with logarithms, or ask for a smaller one."
GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?!\w|,\d)")
"""A number as print groups its digits; in Python the commas would make several numbers of it."""
SIGNS = {0xD7: "*", 0xF7: "/", 0x2212: "-"}
"""The signs of print, as Python writes them."""


class Unsolvable(ToolError):
    """The expression has no value that can be given."""

    code = "calculation_failed"


def evaluate(text: str) -> Value:
    """The value of an expression. Raises `Unsolvable` saying what is wrong with it."""
    if len(text) > MAX_CHARS:
        raise Unsolvable(f"The expression has {len(text)} characters; at most {MAX_CHARS} are worked out.")
    line = " ".join(text.translate(SIGNS).split())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(line, mode="eval")
        refuse_grouped(line, isinstance(tree.body, ast.Tuple) and not line.startswith("("))
        return check_result(Calculator(line).eval(line, tree.body))
    except SyntaxError as error:
        place = f" at character {error.offset}" if error.offset else ""
        raise Unsolvable(f"This is no expression: {error.msg}{place}. Write it such as 2*(3+4)**2.") from None
    except (RecursionError, MemoryError):
        raise Unsolvable("The expression is nested too deeply. Split it.") from None
    except simpleeval.FunctionNotDefined as error:
        known = ", ".join(sorted(FUNCTIONS))
        raise Unsolvable(f"There is no function {error.func_name}. There are: {known}.") from None
    except simpleeval.NameNotDefined as error:
        raise Unsolvable(
            f"{error.name!r} is no known name. Constants: {', '.join(CONSTANTS)}; there are no variables."
        ) from None
    except ZeroDivisionError:
        raise Unsolvable("Division by zero.") from None
    except OverflowError:
        raise Unsolvable("The result is too large for floating point. Use whole exponents.") from None
    except ValueError as error:
        raise Unsolvable(f"This has no value: {error}.") from None
    except (simpleeval.InvalidExpression, KeyError):
        raise Unsolvable(
            "Part of this is not part of arithmetic; only numbers, operators and functions are."
        ) from None


def refuse_grouped(text: str, is_list: bool) -> None:
    """Raise `Unsolvable` for digits in groups: where no list was meant, or where a group cannot be a number."""
    found = next((one[0] for one in GROUPED.finditer(text) if is_list or ",0" in one[0]), None)
    if found is not None:
        raise Unsolvable(
            f"{found[:40]} would be several numbers. Write {found[:40].replace(',', '')} for one; for several, put a "
            "space after each comma."
        )


class Calculator(simpleeval.SimpleEval):  # type: ignore[misc] # it has no types
    """One expression being worked out: operators, functions and names of arithmetic, and exact literals."""

    nodes: dict[type[ast.AST], Callable[..., Any]]

    def __init__(self, line: str) -> None:
        super().__init__(OPERATORS, FUNCTIONS, CONSTANTS)
        self._line = line.encode()
        self._until = time.monotonic() + MAX_S
        kept = (ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp)
        self.nodes = {kind: self.nodes[kind] for kind in kept} | {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Call: self._call,
            ast.BinOp: self._chain,
            ast.List: self._list,
            ast.Tuple: self._list,
        }

    def _eval(self, node: ast.AST) -> Any:
        if time.monotonic() > self._until:
            raise Unsolvable(f"The expression takes more than {MAX_S:g} s. Ask for less at once.")
        return super()._eval(node)

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bool):
            return node.value
        if isinstance(node.value, int | float):
            return parse_literal(self._line[node.col_offset : node.end_col_offset].decode())
        raise simpleeval.FeatureNotAvailable

    def _name(self, node: ast.Name) -> Number:
        if node.id.lower() not in CONSTANTS:
            raise simpleeval.NameNotDefined(node.id, self.expr)
        return CONSTANTS[node.id.lower()]

    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id.lower() in FUNCTIONS:
            node.func.id = node.func.id.lower()
        return self._eval_call(node)

    def _chain(self, node: ast.BinOp) -> Any:
        """Operators one after the other: a+b+c is a tree as deep as it is long, and may be long."""
        steps = [node]
        while isinstance(steps[-1].left, ast.BinOp):
            steps.append(steps[-1].left)
        value = self._eval(steps[-1].left)
        for step in reversed(steps):
            value = self.operators[type(step.op)](value, self._eval(step.right))
        return value

    def _list(self, node: ast.List | ast.Tuple) -> list[Any]:
        return [self._eval(part) for part in node.elts]


def check_result(value: Any) -> Value:
    """A value that may be given: truth, a number, or a list of such."""
    if isinstance(value, list):
        return [check_result(one) for one in value]
    return value if isinstance(value, bool) else normalize(value)


def normalize(value: object) -> Number:
    """A number within the bounds: a whole fraction becomes an integer. Raises `Unsolvable`."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction | float):
        kind = {bool: "True or False", list: "A list"}.get(type(value), "This")
        raise Unsolvable(f"{kind} is no number, and only numbers can be calculated with.")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unsolvable("The result is infinite or undefined. Check the arguments.")
        return value
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise Unsolvable(TOO_LARGE)
    return value.numerator if value.denominator == 1 else value


def parse_literal(text: str) -> Number:
    """The number a literal means, exactly: 0.1 is one tenth. Raises `Unsolvable`."""
    plain = text.replace("_", "").lower()
    if plain.startswith(("0x", "0o", "0b")):
        return normalize(int(plain, 0))
    exponent = plain.partition("e")[2]
    if exponent and abs(int(exponent)) > MAX_BITS // 3:
        raise Unsolvable(TOO_LARGE)
    return normalize(Fraction(plain))


def require_integer(value: Number, name: str) -> int:
    """The value as an integer; raises `Unsolvable` when it is none."""
    if not isinstance(value, int):
        raise Unsolvable(f"{name} takes whole numbers, and {shorten(value)} is none.")
    return value


def shorten(value: Number) -> str:
    """A number for a message."""
    top = value.numerator if isinstance(value, Fraction) else value
    if isinstance(top, int) and top.bit_length() > 128:
        return f"a number of {math.ceil(top.bit_length() * math.log10(2))} digits"
    return str(value)[:40]


def divide(left: Number, right: Number) -> Number:
    """True division: exact for exact numbers."""
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    return normalize(Fraction(left) / right)


def power(base: Number, exponent: Number) -> Number:
    """A power, known to be small enough before it is worked out; a root is exact when it is rational. Raises
    `Unsolvable`."""
    if isinstance(exponent, Fraction) and not isinstance(base, float):
        root = exact_root(base, exponent.denominator)
        if root is not None:
            return power(root, exponent.numerator)
    if isinstance(base, float) or not isinstance(exponent, int):
        if base < 0 and exponent % 1:
            raise Unsolvable("A root of a negative number is not real.")
        try:
            found: float = float(base) ** float(exponent)
            return found
        except OverflowError:
            return math.exp(log_of(base) * float(exponent))  # the base may be too large, and its root not
    if base in (0, 1, -1):  # their powers are at hand for any exponent
        exponent = exponent % 2 + 2 * (exponent > 0) if base else min(max(exponent, -1), 1)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size > 1 and abs(exponent) * (size - 1) > MAX_BITS:
        raise Unsolvable(TOO_LARGE)
    return normalize(Fraction(base) ** exponent)


def exact_root(value: int | Fraction, degree: int) -> Fraction | None:
    """The root of this degree when it is rational and floating point comes near enough to tell, else None."""
    if degree > 64 or (value < 0 and degree % 2 == 0):
        return None
    try:
        top, bottom = (root(abs(part), degree) for part in (value.numerator, value.denominator))
    except OverflowError:
        return None
    found = Fraction(-top if value < 0 else top, bottom)
    return found if found**degree == value else None


def root(value: int, degree: int) -> int:
    """The whole number nearest to a root."""
    return math.isqrt(value) if degree == 2 else round(value ** (1 / degree))


def cube_root(value: Number) -> Number:
    """The real cube root."""
    third = Fraction(1, 3)
    return power(value, third) if value >= 0 else normalize(-power(-value, third))


def logarithm(value: Number, base: Number = math.e) -> Number:
    """The logarithm, natural unless a base is given; exact when it is whole. Raises `Unsolvable`."""
    if value <= 0 or base <= 0 or base == 1:
        raise Unsolvable("A logarithm takes a number above 0, and a base above 0 that is not 1.")
    if base == math.e:
        return log_of(value)
    found = log_of(value) / log_of(base)
    if isinstance(value, int) and base == 10:
        found = math.log10(value)
    near = round(found)
    exact = not isinstance(value, float) and not isinstance(base, float) and abs(found - near) < 1e-9
    return near if exact and power(base, near) == value else found


def log_of(value: Number) -> float:
    """The natural logarithm of a positive number, also of one that floating point cannot hold."""
    if isinstance(value, Fraction):
        return math.log(value.numerator) - math.log(value.denominator)
    return math.log(value)


def factorial(value: Number) -> int:
    """n!"""
    if require_integer(value, "factorial") > MAX_FACTORIAL:
        raise Unsolvable(TOO_LARGE)
    return math.factorial(require_integer(value, "factorial"))


def bound_combinations(name: str, function: Callable[[int, int], int]) -> Callable[[Number, Number], Number]:
    """`comb` and `perm`, refused before they grow too large."""

    def choose(n: Number, k: Number) -> Number:
        top, taken = require_integer(n, name), require_integer(k, name)
        steps = min(taken, top - taken) if name == "comb" else taken
        if top >= taken >= 0 and steps * top.bit_length() > 4 * MAX_BITS:
            raise Unsolvable(TOO_LARGE)
        return function(top, taken)

    return choose


def round_half_even(value: Number, places: Number = 0) -> Number:
    """Rounded to so many places, halves to even."""
    count = require_integer(places, "round")
    if abs(count) > 1_000:
        raise Unsolvable("round takes at most 1,000 places.")
    found: Any = round(value, count)
    return normalize(found)


def fold_values(function: Callable[[Any, Any], Any], start: int) -> Callable[..., Number]:
    """A function of any number of values, taken one after the other so that none grows too large."""

    def fold(*values: Number) -> Number:
        result: Number = start
        for value in values:
            result = normalize(function(result, value))
        return result

    return fold


def over_list(function: Callable[[list[Any]], Number], least: int = 1) -> Callable[..., Number]:
    """A function of a list of numbers, exact when they all are."""

    def apply(*values: Number) -> Number:
        if len(values) < least:
            raise Unsolvable(f"This takes at least {least} number{'s' if least > 1 else ''}.")
        rough = any(isinstance(value, float) for value in values)
        return function([float(value) if rough else Fraction(value) for value in values])

    return apply


def variance(values: list[Any], less: int) -> Number:
    """The squared deviations divided by the count less `less`."""
    mean = divide(total(*values), len(values))
    away = [normalize(value - mean) for value in values]
    return divide(total(*(normalize(one * one) for one in away)), len(values) - less)


def modular_power(base: Number, exponent: Number, modulus: Number | None = None) -> Number:
    """A power, with a modulus if one is given."""
    if modulus is None:
        return power(base, exponent)
    one, other, third = (require_integer(value, "pow") for value in (base, exponent, modulus))
    if third == 0:
        raise ZeroDivisionError
    if third.bit_length() > MAX_MODULAR_BITS or other.bit_length() > MAX_MODULAR_BITS:
        raise Unsolvable(f"pow with a modulus takes exponents and moduli of up to {MAX_MODULAR_BITS} bits.")
    try:
        return pow(one, other, third)
    except ValueError:
        raise Unsolvable(f"{shorten(one)} has no inverse modulo {shorten(third)}.") from None


def shift_left(value: int, by: int) -> int:
    """A number shifted to the left. Raises `Unsolvable`."""
    if value.bit_length() + by > MAX_BITS:
        raise Unsolvable(TOO_LARGE)
    return value << by


def numeric_operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator of numbers, whose result is one."""
    return lambda *values: normalize(function(*map(normalize, values)))


def integer_operator(name: str, function: Callable[..., int]) -> Callable[..., Any]:
    """An operator or function of whole numbers."""
    return numeric_operator(lambda *values: function(*(require_integer(value, name) for value in values)))


def comparison_operator(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A comparison of numbers."""

    def compare(left: object, right: object) -> bool:
        if isinstance(left, list) or isinstance(right, list):
            raise Unsolvable("Only numbers are compared, by < <= == != >= >.")
        return function(left, right)

    return compare


def refuse_caret(left: object, right: object) -> Number:
    """Refuse `^`, which is ambiguous."""
    raise Unsolvable("^ could be a power or exclusive or. Write ** for a power, xor(a, b) for the other.")


def wrap_function(name: str, function: Callable[..., Any]) -> Callable[..., Number]:
    """A function as an expression calls it: a list counts as several arguments, and errors say what was called."""

    def call(*parts: Any) -> Number:
        values = [normalize(one) for part in parts for one in (part if isinstance(part, list) else [part])]
        shown = f"{name}({', '.join(map(shorten, values))[:200]})"
        try:
            return normalize(function(*values))
        except TypeError:
            raise Unsolvable(f"{name} does not take {len(values)} arguments.") from None
        except OverflowError:
            raise Unsolvable(f"{shown} is too large for floating point.") from None
        except ValueError as error:
            raise Unsolvable(f"{shown} has no value: {error}.") from None

    return call


total = fold_values(operator.add, 0)
CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e, "tau": math.tau, "phi": (1 + 5**0.5) / 2}
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: numeric_operator(operator.add),
    ast.Sub: numeric_operator(operator.sub),
    ast.Mult: numeric_operator(operator.mul),
    ast.Div: numeric_operator(divide),
    ast.FloorDiv: numeric_operator(operator.floordiv),
    ast.Mod: numeric_operator(operator.mod),
    ast.Pow: numeric_operator(power),
    ast.BitXor: refuse_caret,
    ast.BitAnd: integer_operator("A bit operator", operator.and_),
    ast.BitOr: integer_operator("A bit operator", operator.or_),
    ast.LShift: integer_operator("<<", shift_left),
    ast.RShift: integer_operator(">>", operator.rshift),
    ast.USub: numeric_operator(operator.neg),
    ast.UAdd: numeric_operator(operator.pos),
    ast.Invert: integer_operator("~", operator.invert),
    ast.Not: operator.not_,
    ast.Eq: comparison_operator(operator.eq),
    ast.NotEq: comparison_operator(operator.ne),
    ast.Lt: comparison_operator(operator.lt),
    ast.LtE: comparison_operator(operator.le),
    ast.Gt: comparison_operator(operator.gt),
    ast.GtE: comparison_operator(operator.ge),
}
REALS = "exp sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh degrees radians hypot gamma erf".split()
PLAIN: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in REALS},
    "abs": abs,
    "round": round_half_even,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "sqrt": lambda value: power(value, Fraction(1, 2)),
    "cbrt": cube_root,
    "log": logarithm,
    "ln": logarithm,
    "log10": lambda value: logarithm(value, 10),
    "log2": lambda value: logarithm(value, 2),
    "factorial": factorial,
    "comb": bound_combinations("comb", math.comb),
    "perm": bound_combinations("perm", math.perm),
    "pow": modular_power,
    "gcd": integer_operator("gcd", math.gcd),
    "lcm": fold_values(integer_operator("lcm", math.lcm), 1),
    "xor": integer_operator("xor", operator.xor),
    "min": over_list(min),
    "max": over_list(max),
    "sum": total,
    "prod": fold_values(operator.mul, 1),
    "mean": over_list(lambda values: divide(total(*values), len(values))),
    "median": over_list(statistics.median),
    "stdev": over_list(lambda values: math.sqrt(variance(values, 1)), 2),
    "pstdev": over_list(lambda values: math.sqrt(variance(values, 0))),
    "variance": over_list(lambda values: variance(values, 1), 2),
}
FUNCTIONS = {name: wrap_function(name, function) for name, function in PLAIN.items()}


def digits(value: int) -> str:
    """A whole number in decimal, however long."""
    return format(Decimal(value), "f")


def format_number(value: Number) -> str:
    """A number in decimal: all digits when they end, else the first thirty."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return digits(value)
    top, bottom = Decimal(value.numerator), Decimal(value.denominator)
    try:
        text = format(Context(prec=MAX_TERMINATING, traps=[Inexact]).divide(top, bottom), "f")
        if len(text) <= MAX_TERMINATING:
            return text
    except Inexact:
        pass
    context = Context(prec=SHOWN_DIGITS)
    return str(context.divide(top, bottom).normalize(context))
