"""Ranked search over tools: BM25 over weighted fields, without dependencies."""

from __future__ import annotations

import hashlib
import heapq
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from jaato.protocol.specs import ToolSpec
from jaato.tools.words import relations, terms

NAME, DESCRIPTION, PARAMETERS, CATEGORY = 4.0, 2.0, 0.5, 1.0
"""How much a word counts in each field."""
NAME_TERMS, DESCRIPTION_TERMS, PARAMETER_TERMS = 4.0, 12.0, 24.0
"""The usual length of each field; fixed, so that adding a tool changes no other tool's weights."""
LENGTH_SHARE = 0.7
SATURATION = 1.0
RELATED_SHARE = 0.4
CLAUSE_SHARE = 0.6
MISSING_SHARE = 0.6
VALUE_SHARE = 0.5
FREQUENT = 10
FREQUENT_SHARE = 0.05
JOINED_SHARE = 0.5
STRONG = 4.0
"""The sum of weights that is half a certainty; what several words of a good tool earn."""

QUOTED = re.compile(r"\"[^\"]{1,200}\"|(?<!\w)'[^']{1,200}'(?!\w)|`[^`]{1,200}`")
MAX_TEXT = 4000
MAX_PARAMETERS = 200
MAX_DEPTH = 12
MAX_QUERY = 4000
MAX_CLAUSES = 12
MAX_POSTINGS = 1500
MAX_CANDIDATES = 300
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
        """The best `limit` tools as (name, score), best first; see `scores`."""
        return best(self.scores(query), limit)

    def scores(self, query: str) -> dict[str, float]:
        """Every tool with a word of this query, or one near to it, with a score from 0 to 1.

        The score of the best says how well it fits: 0.5 is a good one, below 0.3 little of what was asked is there.
        A request of several clauses is searched clause by clause too, so that each step finds its tool. A query that
        is a tool's name has it first, with 1. Words no tool has find nothing: the answer may be empty.
        """
        query = query[:MAX_QUERY]
        scores = self._scores(query)
        exact = query.strip()
        if exact in self._entries:
            scores[exact] = 1.0
        return scores

    def _scores(self, query: str) -> dict[str, float]:
        """Every tool that has a word of this query, or one near to it, with its score.

        Each step of a request deserves its tool, so the best of each clause is mixed with the best of all.
        """
        clauses = [part for part in map(wanted_terms, CLAUSE.split(query, MAX_CLAUSES)) if part]
        earned: dict[str, dict[str, float]] = {}
        whole: dict[str, float] = {}
        shares: dict[str, float] = {}
        for clause in clauses:
            for term, share in clause.items():
                shares[term] = max(share, shares.get(term, 0.0))
        among: Set[str] | None = None
        read = 0
        for term in sorted(shares, key=self._frequency):
            read += self._frequency(term)
            if among is None and read > MAX_POSTINGS and len(whole) > MAX_CANDIDATES:
                among = set(heapq.nlargest(MAX_CANDIDATES, whole, key=whole.__getitem__))
            earned[term] = credit = self._credit(term, shares, among)
            for name, value in credit.items():
                whole[name] = whole.get(name, 0.0) + value
        if not whole:
            return whole
        top = max(whole.values())
        if len(clauses) < 2:
            return {name: score / (top + STRONG) for name, score in whole.items()}
        strength = 0.0
        peaks: dict[str, float] = {}
        for clause in clauses:
            scores: dict[str, float] = {}
            for term in clause:
                for name, value in earned[term].items():
                    scores[name] = scores.get(name, 0.0) + value
            highest = max(scores.values(), default=0.0)
            strength = max(strength, highest / (highest + STRONG))
            for name, score in scores.items():
                peak = score / (highest + STRONG)
                if peak > peaks.get(name, 0.0):
                    peaks[name] = peak
        mixed = {
            name: (1 - CLAUSE_SHARE) * score / top + CLAUSE_SHARE * peaks.get(name, 0.0)
            for name, score in whole.items()
        }
        scale = strength / max(mixed.values())
        return {name: score * scale for name, score in mixed.items()}

    def _frequency(self, term: str) -> int:
        """How many tools have this term."""
        return len(self._postings.get(term, ()))

    def _credit(self, term: str, shares: Mapping[str, float], among: Set[str] | None) -> dict[str, float]:
        """What each tool earns by having this term or, for less, one of its relations that was not asked for."""
        own = self._postings.get(term, {})
        share = shares[term]
        count = len(self._entries)
        credit: dict[str, float] = {}
        related = share * (RELATED_SHARE if own else MISSING_SHARE)
        frequent = FREQUENT + FREQUENT_SHARE * count
        for other in relations().get(term, ()) if related else ():
            posting = self._postings.get(other)
            if not posting or other in shares or len(posting) > frequent:
                continue
            factor = related * rarity(count, max(len(posting), len(own)))  # no rarer than the word asked for
            for name in posting if among is None else posting.keys() & among:
                value = factor * posting[name]
                if value > credit.get(name, 0.0):
                    credit[name] = value
        if own:
            factor = share * rarity(count, len(own))
            for name in own if among is None else own.keys() & among:
                value = factor * own[name]
                if value > credit.get(name, 0.0):
                    credit[name] = value
        return credit

    def _forget(self, name: str) -> None:
        for term in self._entries.pop(name).weights:
            posting = self._postings[term]
            del posting[name]
            if not posting:
                del self._postings[term]


def best(scores: Mapping[str, float], limit: int) -> list[tuple[str, float]]:
    """The highest `limit` scores, equal ones in the order of their names, so that pages join."""
    found = heapq.nsmallest(max(0, limit), scores.items(), key=lambda item: (-item[1], item[0]))
    return [(name, round(score, 4)) for name, score in found]


def rarity(count: int, having: int) -> float:
    """How much a term tells that `having` of `count` tools have."""
    return math.log(1 + (count - having + 0.5) / (having + 0.5))


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
