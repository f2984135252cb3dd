"""What a request asks for: its steps, and how much each of their terms counts."""

from __future__ import annotations

import re
from itertools import pairwise

from jaato.tools.words import terms

VALUE_SHARE = 0.5
JOINED_SHARE = 0.5
MAX_QUERY = 4000
MAX_CLAUSES = 12
QUOTED = re.compile(r"\"[^\"]{1,200}\"|(?<!\w)'[^']{1,200}'(?!\w)|`[^`]{1,200}`")
CLAUSE = re.compile(
    r"[.!?;\n]+\s+|,?\s+(?:and then|then|finally|next|lastly|also|additionally)\b,?|,\s+and\s+|\s+and\s+",
    re.IGNORECASE,
)


def asked_in(query: str) -> list[dict[str, float]]:
    """For each step of a request its terms, each with its share."""
    return [part for part in map(wanted_terms, CLAUSE.split(query[:MAX_QUERY], MAX_CLAUSES)) if part]


def wanted_terms(clause: str) -> dict[str, float]:
    """The terms of a clause, each with its share: what stands in quotes or has digits is a value more than a wish."""
    shares = dict.fromkeys(terms(QUOTED.sub(" ", clause)), 1.0)
    for term in list(shares):
        if any(letter.isdigit() for letter in term):
            shares[term] = VALUE_SHARE
    if VALUE_SHARE:
        for quoted in QUOTED.findall(clause):
            for term in terms(quoted):
                shares.setdefault(term, VALUE_SHARE)
    words = list(shares)
    for first, second in pairwise(words):
        shares.setdefault(first + second, JOINED_SHARE)
    return shares


def steps_of(query: str) -> list[str]:
    """The steps of a request in its own words; the whole of it when it has but one."""
    steps = [part.strip() for part in CLAUSE.split(query[:MAX_QUERY], MAX_CLAUSES) if len(part.split()) > 1]
    return steps if len(steps) > 1 else [query[:MAX_QUERY]]
