"""Ranked tool search by words: BM25 over weighted fields."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

import msgspec

from jaato.protocol.specs import ToolSpec
from jaato.tools.search.tokenizer import find_related_stems, parse_query, pieces, terms

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
    """A digest to detect a changed tool; None (always read again) when it cannot be encoded as JSON."""
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


NOTHING: Mapping[str, float] = {}

RELATED_SHARE = 0.6
CLAUSE_SHARE = 0.6
MISSING_SHARE = 0.8
FREQUENT = 10
FREQUENT_SHARE = 0.05
COVERED_SHARE = 0.5
"""How much a tool gains whose whole name was asked for: `get_order` beside `get_order_history` for "the order"."""
NEAR_COVERS = 0.6
MAX_COVERED = 80
STRONG = 4.5
"""The sum of weights that is half a certainty; what several words of a good tool earn."""

MAX_POSTINGS = 1500
MAX_CANDIDATES = 300
"""Postings read per query; beyond it frequent words only re-rank what rarer ones have found."""


class Bm25Index(msgspec.Struct):
    """A ranked index over tools by name; `update` reads again only what changed."""

    _entries: dict[str, bytes | None] = msgspec.field(default_factory=dict)
    """A digest of what each tool was made from."""
    _terms: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    _postings: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """The tools that have a term, with its weight in each."""
    _pieces: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._entries)

    def update(self, tools: Iterable[ToolSpec]) -> None:
        """Make these the tools of the index: new and changed ones are read, missing ones forgotten."""
        tools = list(tools)
        gone = self._entries.keys() - {tool.name for tool in tools}
        fresh: dict[str, tuple[ToolSpec, bytes | None]] = {}
        for tool in tools:
            digest = digest_of(tool)
            if tool.name in self._entries:
                if digest is not None and self._entries[tool.name] == digest:
                    continue
                gone.add(tool.name)
            fresh[tool.name] = tool, digest
        self._forget(gone)
        for tool, digest in fresh.values():
            weights = weights_of(tool)
            self._entries[tool.name] = digest
            self._terms[tool.name] = tuple(weights)
            for term, weight in weights.items():
                self._postings.setdefault(term, {})[tool.name] = weight

    def _forget(self, gone: Set[str]) -> None:
        """Leave nothing of these tools."""
        for name in gone:
            del self._entries[name]
            self._pieces.pop(name, None)
            for term in self._terms.pop(name):
                posting = self._postings[term]
                del posting[name]
                if not posting:
                    del self._postings[term]

    def search(self, query: str, limit: int = 10) -> list[tuple[str, float]]:
        """The best `limit` tools as (name, score), best first; see `scores`."""
        return best_scores(self.scores(query), limit)

    def scores(self, query: str) -> dict[str, float]:
        """Every tool with a word of this query, or one near to it, with a score from 0 to 1.

        The score of the best says how well it fits: 0.5 is a good one, below 0.3 little of what was asked is there.
        A request of several clauses is searched clause by clause too, so that each step finds its tool. A query that
        is a tool's name has it first, with 1. Words no tool has find nothing: the answer may be empty.
        """
        clauses = parse_query(query)
        shares: dict[str, float] = {}
        for clause in clauses:
            for term, share in clause.items():
                shares[term] = max(share, shares.get(term, 0.0))
        raw, strength = self._scores(clauses, shares)
        scores = self._boost_covered(raw, shares)
        scale = strength / max(scores.values(), default=1.0)
        scores = {name: score * scale for name, score in scores.items()}
        exact = query.strip()
        if exact in self._entries:
            scores[exact] = 1.0
        return scores

    def _scores(
        self, clauses: Sequence[Mapping[str, float]], shares: Mapping[str, float]
    ) -> tuple[dict[str, float], float]:
        """The score of every tool that has one of these terms or a related one, and the strength of the best, up to 1.

        Each step of a request deserves its tool, so the best of each clause is mixed with the best of all.
        """
        earned: dict[str, dict[str, float]] = {}
        whole: dict[str, float] = {}
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
            return whole, 0.0
        top = max(whole.values())
        if len(clauses) < 2:
            return whole, top / (top + STRONG)
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
        return mixed, strength

    def _boost_covered(self, scores: dict[str, float], shares: Mapping[str, float]) -> dict[str, float]:
        """These scores, those of the best raised as far as the whole of their name was asked for."""
        if len(scores) < 2:
            return scores
        asked = dict(shares)
        for term, share in shares.items():
            for other, nearness in find_related_stems(term):
                asked[other] = max(asked.get(other, 0.0), NEAR_COVERS * nearness * share)
        count = len(self._entries)
        rarities: dict[str, float] = {}
        for name in heapq.nlargest(MAX_COVERED, scores, key=scores.__getitem__):
            of_name = self._pieces.get(name)
            if of_name is None:
                of_name = self._pieces[name] = tuple(dict.fromkeys(pieces(name)))
            whole = given = 0.0
            for term in of_name:
                tells = rarities.get(term)
                if tells is None:
                    tells = rarities[term] = rarity(count, self._frequency(term))
                whole += tells
                given += tells * asked.get(term, 0.0)
            if whole:
                scores[name] *= 1 + COVERED_SHARE * given / whole
        return scores

    def _frequency(self, term: str) -> int:
        """How many tools have this term."""
        return len(self._postings.get(term, NOTHING))

    def _credit(self, term: str, shares: Mapping[str, float], among: Set[str] | None) -> dict[str, float]:
        """The score of each tool for this term or, with less weight, a related one that is not in the query."""
        own = self._postings.get(term, NOTHING)
        share = shares[term]
        count = len(self._entries)
        tells = share * rarity(count, len(own))
        if among is None:
            credit = {name: tells * weight for name, weight in own.items()}
        else:
            credit = {name: tells * own[name] for name in own.keys() & among}
        related = share * (RELATED_SHARE if own else MISSING_SHARE)
        frequent = FREQUENT + FREQUENT_SHARE * count
        for other, nearness in find_related_stems(term):
            having = self._frequency(other)
            if other not in shares and 0 < having <= frequent:
                # no rarer than the word asked for
                factor = related * nearness * rarity(count, max(having, len(own)))
                posting = self._postings.get(other, NOTHING)
                for name in posting if among is None else posting.keys() & among:
                    value = factor * posting[name]
                    if value > credit.get(name, 0.0):
                        credit[name] = value
        return credit


def best_scores(scores: Mapping[str, float], limit: int) -> list[tuple[str, float]]:
    """The highest `limit` scores, equal ones in the order of their names, so that pages join."""
    found = heapq.nsmallest(max(0, limit), scores.items(), key=lambda item: (-item[1], item[0]))
    return [(name, round(score, 4)) for name, score in found]


def rarity(count: int, having: int) -> float:
    """How much a term tells that `having` of `count` tools have."""
    return math.log(1 + (count - having + 0.5) / (having + 0.5))
