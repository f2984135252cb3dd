"""A plan out of a model's reply: held against the tools there are and the steps there may be."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from jaato.runtime.flow.records import Planned
from jaato.runtime.flow.words import MAX_PURPOSE_CHARS
from jaato.runtime.result import parse
from jaato.tools.names import shown_name


class Steps(msgspec.Struct):
    """A plan as a model writes it."""

    steps: list[Planned]


class Plan(NamedTuple):
    """What a reply plans, and what is wrong with it; `too_long` where it has too many steps."""

    steps: list[Planned]
    problems: list[str]
    too_long: bool = False


def plan_of(text: str, names: Collection[str], max_steps: int) -> Plan:
    """The plan in a reply."""
    try:
        steps = parse(text, Steps).steps
    except (ValueError, RecursionError) as error:
        return Plan([], [f"it is not the JSON asked for ({str(error)[:300]})"])
    unknown = dict.fromkeys(step.tool for step in steps if step.tool not in names)
    problems = [f"there is no tool {shown_name(name)[:80]!r}" for name in unknown]
    if len(steps) > max_steps:
        problems.append(f"it has {len(steps):,} steps, and {max_steps} may be taken")
    kept = [Planned(step.tool, step.purpose[:MAX_PURPOSE_CHARS]) for step in steps[: max_steps + 1]]
    return Plan(kept, problems, len(steps) > max_steps)
