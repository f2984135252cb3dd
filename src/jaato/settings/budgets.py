"""Budgets as people write them: `50k tokens, $2, 10m per turn`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from jaato.errors import ConfigError
from jaato.lazy_pattern import lazy_pattern

Scope = Literal["turn", "session", "day"]
Unit = Literal["tokens", "usd", "s"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
UNITS: tuple[Unit, ...] = get_args(Unit)
OFF = ("off", "none")
MORE = "more"
"""Continue after a budget was used up, with as much again."""
NAMES: dict[str, Scope] = {
    "turn": "turn",
    "prompt": "turn",
    "session": "session",
    "run": "session",
    "day": "day",
}
PART = lazy_pattern(r"(?P<amount>.*?)(?:\s*(?:per\b|/|\ba\b)\s*(?P<scope>\w+))?")
NEXT = lazy_pattern(r",(?!\d{3}(?!\d))|;|\band\b")
"""Between two budgets; not the comma of `50,000`."""
NUMBER = r"(\d+(?:\.\d+)?)"
MONEY = lazy_pattern(rf"(?:us)?\$\s*{NUMBER}|{NUMBER}\s*(?:\$|usd|dollars?)")
TOKENS = lazy_pattern(rf"{NUMBER}\s*([km]?)\s*tok(?:ens?)?|{NUMBER}\s*k")
TIME = lazy_pattern(
    rf"(?:{NUMBER}\s*h(?:ours?)?)?\s*(?:{NUMBER}\s*m(?:in(?:utes?)?)?)?\s*(?:{NUMBER}\s*s(?:ec(?:onds?)?)?)?"
)
MOST_AMOUNT_CHARS = 40
"""Longer texts are no amounts: a number of hundreds of digits is not finite."""
HELP = "write amounts and scopes such as '50k tokens per turn', '$2 per session', '1h30m per day', or more, or off"


class BudgetFlags(NamedTuple):
    """Budgets given by hand: values of the settings of their names; and whether to continue with as much again."""

    settings: dict[str, float]
    more: bool = False


def get_setting_name(scope: Scope, unit: Unit) -> str:
    """The setting that has this limit."""
    return f"budget_{scope}_{unit}"


def parse_budgets(texts: Iterable[str]) -> BudgetFlags:
    """The budgets of some flags. An amount without a scope has that of the next one that has one, else `session`.
    Raises `ConfigError`, also for two budgets of one kind."""
    found: dict[tuple[Scope, Unit], float] = {}
    more = False
    for text in texts:
        word = text.strip().lower()
        if word == MORE:
            more = True
        elif word in OFF:
            found = {(scope, unit): 0 for scope in SCOPES for unit in UNITS}
        else:
            for scope, unit, value in parse_budget(word):
                before = found.get((scope, unit)) or value
                if before != value:
                    amounts = f"{format_amount(unit, before)} and {format_amount(unit, value)}"
                    raise ConfigError(f"Two budgets per {scope} are given, {amounts}: give one of them.")
                found[scope, unit] = value
    return BudgetFlags({get_setting_name(*key): value for key, value in found.items()}, more)


def parse_budget(text: str) -> list[tuple[Scope, Unit, float]]:
    """The budgets of one text. Raises `ConfigError`."""
    found: list[tuple[Scope, Unit, float]] = []
    waiting: list[tuple[Unit, float]] = []
    for part in filter(str.strip, NEXT.split(text)):
        matched = PART.fullmatch(part.strip())
        name = matched["scope"] if matched is not None else None
        amount = parse_amount(matched["amount"]) if matched is not None else None
        if amount is None or (name is not None and name not in NAMES):
            raise ConfigError(f"The budget {text!r:.80} is not understood at {part.strip()!r:.40}; {HELP}.")
        if not amount[1]:
            raise ConfigError(f"A budget is above zero, not {part.strip()!r:.40}; off removes budgets.")
        waiting.append(amount)
        if name is not None:
            found += [(NAMES[name], *one) for one in waiting]
            waiting.clear()
    if not found and not waiting:
        raise ConfigError(f"The budget is empty; {HELP}.")
    return [*found, *[("session", *one) for one in waiting]]


def parse_amount(text: str) -> tuple[Unit, float] | None:
    """An amount with its unit: `50k`, `1.5m tokens`, `$2`, `2 usd`, `10m`, `1h30m`; None for anything else."""
    text = text.strip().lower().replace(",", "").replace("_", "")
    if len(text) > MOST_AMOUNT_CHARS:
        return None
    if (found := MONEY.fullmatch(text)) is not None:
        return "usd", float(found[1] or found[2])
    if (found := TOKENS.fullmatch(text)) is not None:
        times = {"": 1, "k": 1_000, "m": 1_000_000}[found[2] or ""] if found[1] else 1_000
        return "tokens", round(float(found[1] or found[3]) * times)
    if text and (found := TIME.fullmatch(text)) is not None:
        hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return "s", hours * 3_600 + minutes * 60 + seconds
    return None


def format_amount(unit: Unit, value: float) -> str:
    """An amount for people, which `parse_amount` reads."""
    match unit:
        case "tokens":
            return format_count(round(value), "token")
        case "usd":
            return f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}"
    hours, rest = divmod(value, 3_600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{hours:.0f}h" if hours else "", f"{minutes:.0f}m" if minutes else ""]
    return "".join(parts) + (f"{seconds:.3g}s" if seconds or not (hours or minutes) else "")


def format_count(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def price_text(cost_usd: float | None, *, is_partial: bool = False) -> str:
    """A price for people; None is an unknown one. `is_partial`: that of some calls is unknown, and more comes on top."""
    if cost_usd is None:
        return "price unknown"
    text = format_amount("usd", cost_usd) if cost_usd else "$0"
    return f"at least {text}" if is_partial else text
