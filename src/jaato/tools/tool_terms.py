"""What a search reads of a tool: the weight of each of its terms, and a digest that tells when it has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from jaato.protocol.specs import ToolSpec
from jaato.tools.words import terms

NAME, DESCRIPTION, PARAMETERS, CATEGORY = 4.0, 3.0, 0.5, 1.0
"""How much a word counts in each field."""
NAME_TERMS, DESCRIPTION_TERMS, PARAMETER_TERMS = 4.0, 12.0, 24.0
"""The usual length of each field; fixed, so that adding a tool changes no other tool's weights."""
OPENING, OPENING_TERMS = 1.0, 4
"""How much two neighbours count among the first terms of a description, which mostly say what is done to what."""
LENGTH_SHARE = 0.5
SATURATION = 0.6
MAX_TEXT = 4000
MAX_PARAMETERS = 200
MAX_DEPTH = 12
DIGEST_BYTES = 16


def digest_of(tool: ToolSpec) -> bytes | None:
    """What tells whether a tool has changed; None (always read again) when it cannot be written as JSON."""
    try:
        data = msgspec.json.encode((tool.description, tool.parameters, tool.category))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def weights_of(tool: ToolSpec) -> dict[str, float]:
    """The weight of each term of a tool: its occurrences by field and field length, saturated."""
    described = terms(tool.description[:MAX_TEXT])
    sums = {first + second: OPENING for first, second in pairwise(described[:OPENING_TERMS])}
    fields = (
        (terms(tool.name[:MAX_TEXT]), NAME, NAME_TERMS),
        (described, DESCRIPTION, DESCRIPTION_TERMS),
        (terms(" ".join(parameter_texts(tool.parameters))[:MAX_TEXT]), PARAMETERS, PARAMETER_TERMS),
        (terms(tool.category[:MAX_TEXT]), CATEGORY, 0.0),
    )
    for found, share, usual in fields:
        length = 1 - LENGTH_SHARE + LENGTH_SHARE * len(found) / usual if usual else 1.0
        each = share / length
        for term in found:
            sums[term] = sums.get(term, 0.0) + each
    return {term: total / (total + SATURATION) for term, total in sums.items()}


def parameter_texts(schema: Any) -> Iterator[str]:
    """The names and descriptions of a schema's parameters, nested ones too, as many as are of use."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    left = MAX_PARAMETERS
    while waiting and left > 0:
        node, depth = waiting.pop()
        if not isinstance(node, dict) or depth > MAX_DEPTH:
            continue
        properties = node.get("properties")
        for name, entry in properties.items() if isinstance(properties, dict) else ():
            left -= 1
            yield str(name)
            if isinstance(entry, dict):
                described = entry.get("description")
                if isinstance(described, str):
                    yield described
                waiting.append((entry, depth + 1))
        items = node.get("items")
        if isinstance(items, dict):
            waiting.append((items, depth + 1))
