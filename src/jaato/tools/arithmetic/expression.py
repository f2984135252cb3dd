"""An expression as a tree of known operations, worked out step by step; nothing else is ever run."""

from __future__ import annotations

import ast
import operator
import re
import time
import warnings
from collections.abc import Callable
from typing import Any

from jaato.tools.arithmetic.functions import CONSTANTS, FUNCTIONS, shift, whole
from jaato.tools.arithmetic.numbers import (
    Number,
    Unsolvable,
    brief,
    combined,
    divided,
    literal,
    power,
    settled,
)

MAX_CHARS = 4_000
MAX_DEPTH = 80
MAX_S = 5.0
"""How long one expression is worked on; no single step takes long."""
GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?!\w|,\d)")
"""A number as print groups its digits; in Python the commas would make several numbers of it."""
LINE_END = re.compile(r"\r\n|\r|\n")
"""What ends a line for Python's parser, which counts bytes in each."""
SIGNS = {0xD7: "*", 0xF7: "/", 0x2212: "-"}
"""The signs of print, as Python writes them."""
Value = Number | bool | list[Any]

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: divided,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
BITS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(text: str) -> Value:
    """The value of an expression. Raises `Unsolvable` saying what is wrong with it."""
    if len(text) > MAX_CHARS:
        raise Unsolvable(f"The expression has {len(text)} characters; at most {MAX_CHARS} are worked out.")
    plain = text.strip().translate(SIGNS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(plain, mode="eval")
    except SyntaxError as error:
        place = f" at character {error.offset}" if error.offset else ""
        raise Unsolvable(f"This is no expression: {error.msg}{place}. Write it such as 2*(3+4)**2.") from None
    except (RecursionError, MemoryError, ValueError):
        raise Unsolvable(
            "The expression is nested too deeply or has a character that cannot be read."
        ) from None
    refuse_grouped(plain, isinstance(tree.body, ast.Tuple) and not plain.startswith("("))
    try:
        return Evaluation(plain).value(tree.body, 0)
    except RecursionError:
        raise Unsolvable("The expression is nested too deeply.") from None


def refuse_grouped(text: str, is_list: bool) -> None:
    """Raise `Unsolvable` for digits in groups: where no list was meant, or where a group cannot be a number."""
    found = next((one[0] for one in GROUPED.finditer(text) if is_list or ",0" in one[0]), None)
    if found is not None:
        raise Unsolvable(
            f"{found[:40]} would be several numbers. Write {found[:40].replace(',', '')} for one; for several, put a "
            "space after each comma."
        )


class Evaluation:
    """One expression being worked out."""

    def __init__(self, text: str) -> None:
        self._lines = [line.encode() for line in LINE_END.split(text)]
        self._until = time.monotonic() + MAX_S

    def check(self, depth: int) -> None:
        """Raise `Unsolvable` when the expression goes too deep or takes too long."""
        if depth > MAX_DEPTH:
            raise Unsolvable(f"The expression is nested more than {MAX_DEPTH} deep. Split it.")
        if time.monotonic() > self._until:
            raise Unsolvable(f"The expression takes more than {MAX_S:g} s. Ask for less at once.")

    def value(self, node: ast.expr, depth: int) -> Value:
        """What a part of the tree comes to."""
        self.check(depth)
        match node:
            case ast.Constant(value=bool(known)):
                return known
            case ast.Constant(value=int() | float()):
                return literal(self._lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode())
            case ast.Name(id=name):
                return constant(name)
            case ast.BinOp():
                return self.chain(node, depth)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand, depth + 1)
            case ast.UnaryOp(op=mark, operand=operand):
                return unary(mark, self.number(operand, depth))
            case ast.Compare(left=left, ops=signs, comparators=others):
                return self.compare([left, *others], signs, depth)
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self.value(part, depth + 1) for part in parts)
            case ast.BoolOp(values=parts):
                return any(self.value(part, depth + 1) for part in parts)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if self.value(test, depth + 1) else other, depth + 1)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self.value(part, depth + 1) for part in parts]
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
                return self.call(name, parts, depth)
        raise Unsolvable(
            f"{type(node).__name__} is not part of arithmetic; only numbers, operators and functions are."
        )

    def number(self, node: ast.expr, depth: int) -> Number:
        """A part that must be a number."""
        return settled(self.value(node, depth + 1))

    def chain(self, node: ast.BinOp, depth: int) -> Number:
        """Operators one after the other: a+b+c is a tree as deep as it is long, and may be long."""
        steps = [node]
        while isinstance(steps[-1].left, ast.BinOp):
            steps.append(steps[-1].left)
        value = self.number(steps[-1].left, depth)
        for step in reversed(steps):
            value = binary(step.op, value, self.number(step.right, depth))
        return value

    def compare(self, parts: list[ast.expr], signs: list[ast.cmpop], depth: int) -> bool:
        """A chain of comparisons."""
        values = [self.value(part, depth + 1) for part in parts]
        for left, sign, right in zip(values, signs, values[1:], strict=False):
            compared = COMPARED.get(type(sign))
            if compared is None or isinstance(left, list) or isinstance(right, list):
                raise Unsolvable("Only numbers are compared, by < <= == != >= >.")
            if not compared(left, right):
                return False
        return True

    def call(self, name: str, parts: list[ast.expr], depth: int) -> Value:
        """A function of its arguments; a list counts as several."""
        function = FUNCTIONS.get(name.lower())
        if function is None:
            raise Unsolvable(f"There is no function {name}. There are: {', '.join(sorted(FUNCTIONS))}.")
        values: list[Number] = []
        for part in parts:
            value = self.value(part, depth + 1)
            values += [settled(one) for one in value] if isinstance(value, list) else [settled(value)]
        try:
            return settled(function(*values))
        except TypeError:
            raise Unsolvable(f"{name} does not take {len(values)} arguments.") from None
        except ZeroDivisionError:
            raise Unsolvable("Division by zero.") from None
        except OverflowError:
            raise Unsolvable(f"{name}({listed(values)}) is too large for floating point.") from None
        except ValueError as error:
            raise Unsolvable(f"{name}({listed(values)}) has no value: {error}.") from None


def listed(values: list[Number]) -> str:
    """Arguments for a message."""
    return ", ".join(map(brief, values))[:200]


def constant(name: str) -> Number:
    """The value of a name."""
    if name.lower() not in CONSTANTS:
        raise Unsolvable(
            f"{name!r} is no known name. Constants: {', '.join(CONSTANTS)}; there are no variables."
        )
    return CONSTANTS[name.lower()]


def binary(sign: ast.operator, left: Number, right: Number) -> Number:
    """Two numbers and the operator between them."""
    if isinstance(sign, ast.Pow):
        return power(left, right)
    if isinstance(sign, ast.LShift | ast.RShift):
        return shift("<<" if isinstance(sign, ast.LShift) else ">>", left, right)
    if isinstance(sign, ast.BitXor):
        raise Unsolvable("^ could be a power or exclusive or. Write ** for a power, xor(a, b) for the other.")
    bits = BITS.get(type(sign))
    if bits is not None:
        return settled(bits(whole(left, "A bit operator"), whole(right, "A bit operator")))
    operation = ARITHMETIC.get(type(sign))
    if operation is None:
        raise Unsolvable("Matrices are not calculated with. Use run with a program that does.")
    return combined(operation, left, right)


def unary(mark: ast.unaryop, value: Number) -> Number:
    """A number and the sign before it."""
    match mark:
        case ast.USub():
            return -value
        case ast.Invert():
            return ~whole(value, "~")
    return value
