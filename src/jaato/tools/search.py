"""Ranked search over tools: BM25 over weighted fields, without dependencies."""

from __future__ import annotations

import hashlib
import heapq
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jaato.protocol.specs import ToolSpec
from jaato.tools.words import relations, terms

NAME, DESCRIPTION, PARAMETERS, CATEGORY = 4.0, 2.0, 0.5, 1.0
"""How much a word counts in each field."""
NAME_TERMS, DESCRIPTION_TERMS, PARAMETER_TERMS = 4.0, 12.0, 24.0
"""The usual length of each field; fixed, so that adding a tool changes no other tool's weights."""
LENGTH_SHARE = 0.5
SATURATION = 4.0
RELATED_SHARE = 0.3
CLAUSE_SHARE = 0.5
EXACT_NAME = 1000.0

MAX_TEXT = 4000
MAX_PARAMETERS = 200
MAX_DEPTH = 12
MAX_QUERY = 4000
MAX_CLAUSES = 12
MAX_POSTINGS = 8000
"""Postings read per query; beyond it frequent words only re-rank what rarer ones have found."""

CLAUSE = re.compile(
    r"[.!?;\n]+\s+|,?\s+(?:and then|then|finally|next|lastly|also|additionally)\b,?|,\s+and\s+|\s+and\s+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One indexed tool: a digest of what it was made from, and the weight of each of its terms."""

    digest: bytes | None
    weights: dict[str, float]


@dataclass(slots=True)
class Index:
    """A ranked index over tools by name; `update` reads again only what changed."""

    _entries: dict[str, Entry] = field(default_factory=dict)
    _postings: dict[str, dict[str, float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._entries)

    def update(self, tools: Iterable[ToolSpec]) -> None:
        """Make these the tools of the index: new and changed ones are read, missing ones forgotten."""
        seen: set[str] = set()
        for tool in tools:
            seen.add(tool.name)
            digest = digest_of(tool)
            old = self._entries.get(tool.name)
            if old is not None:
                if digest is not None and old.digest == digest:
                    continue
                self._forget(tool.name)
            weights = weights_of(tool)
            self._entries[tool.name] = Entry(digest, weights)
            for term, weight in weights.items():
                posting = self._postings.get(term)
                if posting is None:
                    self._postings[term] = {tool.name: weight}
                else:
                    posting[tool.name] = weight
        for name in [name for name in self._entries if name not in seen]:
            self._forget(name)

    def search(self, query: str, limit: int = 10) -> list[tuple[str, float]]:
        """The best `limit` tools as (name, score), best first; scores compare within one query only.

        A request of several clauses is searched clause by clause too, so that each step finds its tool. A query that
        is a tool's name has it first. Words no tool has find nothing: the list may be empty.
        """
        query = query[:MAX_QUERY]
        clauses = clauses_of(query)
        scores = self._scores(clauses)
        exact = query.strip()
        if exact in self._entries:
            scores[exact] = scores.get(exact, 0.0) + EXACT_NAME
        best = heapq.nsmallest(max(0, limit), scores.items(), key=lambda item: (-item[1], item[0]))
        return [(name, round(score, 4)) for name, score in best]

    def _scores(self, clauses: list[dict[str, float]]) -> dict[str, float]:
        """Every tool that has a word of these clauses, with its score."""
        whole: dict[str, float] = {}
        for clause in clauses:
            for name, score in self._clause_scores(clause).items():
                whole[name] = whole.get(name, 0.0) + score
        return whole

    def _clause_scores(self, wanted: dict[str, float]) -> dict[str, float]:
        scores: dict[str, float] = {}
        count = len(self._entries)
        for term, share in wanted.items():
            posting = self._postings.get(term)
            if not posting:
                continue
            factor = share * math.log(1 + (count - len(posting) + 0.5) / (len(posting) + 0.5))
            for name, weight in posting.items():
                scores[name] = scores.get(name, 0.0) + factor * weight
        return scores

    def _forget(self, name: str) -> None:
        for term in self._entries.pop(name).weights:
            posting = self._postings[term]
            del posting[name]
            if not posting:
                del self._postings[term]


def clauses_of(query: str) -> list[dict[str, float]]:
    """The terms of each clause of a query, each with its share."""
    return [dict.fromkeys(terms(query), 1.0)]


def digest_of(tool: ToolSpec) -> bytes | None:
    """What tells whether a tool has changed; None (always read again) when it cannot be written as JSON."""
    try:
        data = msgspec.json.encode((tool.description, tool.parameters, tool.category))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return hashlib.blake2b(data, digest_size=16).digest()


def weights_of(tool: ToolSpec) -> dict[str, float]:
    """The weight of each term of a tool: its occurrences by field and field length, saturated."""
    sums: dict[str, float] = {}
    fields = (
        (terms(tool.name[:MAX_TEXT]), NAME, NAME_TERMS),
        (terms(tool.description[:MAX_TEXT]), DESCRIPTION, DESCRIPTION_TERMS),
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
