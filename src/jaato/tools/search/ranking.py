"""Ranked results of a tool search for the model and the terminal: rows, confidence, and whether a call is allowed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaato.protocol.specs import ToolSpec
from jaato.tools.call import Call
from jaato.tools.catalog import Catalog
from jaato.tools.permissions.decision import ACCESS_WORDS
from jaato.tools.permissions.gate import Gate

MAX_QUERIES = 16
SHORT_CHARS = 100
ECHO_CHARS = 200
WEAK_SCORE = 0.36
"""Below it little of what was asked is in the best tool, by its words or, where there are vectors, its meaning."""
Access = Callable[[ToolSpec], str | None]


def access_by(gate: Gate, catalog: Catalog, call: Call) -> Access:
    """A function that tells whether a call of a tool without arguments would be allowed, asked about or denied."""

    def access(spec: ToolSpec) -> str | None:
        entry = catalog.find(spec.name)
        if entry is None:
            return None
        if entry.tool.remote is not None and entry.tool.remote.unreachable_reason:
            return "unreachable"
        probe = Call(id="", name=spec.name, arguments={}, workspace=call.workspace)
        return ACCESS_WORDS[gate.explain(probe, entry.tool).effect]

    return access


Hits = list[tuple[ToolSpec, float]]


def search_all(catalog: Catalog, queries: Sequence[str], count: int) -> list[Hits]:
    """The best tools for each of the first `MAX_QUERIES` queries; it may take a second, so no loop should wait for it."""
    return [catalog.search(query, count) for query in queries[:MAX_QUERIES]]


def rank_tools(
    catalog: Catalog,
    queries: Sequence[str],
    access: Access,
    *,
    hits: Sequence[Hits] | None = None,
    limit: int,
    start: int = 0,
    verbose: bool = False,
) -> dict[str, Any]:
    """For each of the first `MAX_QUERIES` queries the tools from `start` on, at most `limit`, the best first.

    Where none fits well a note says so, and the categories are there to look in. `hits` are those that `search_all` found
    already, one more than `start` and `limit` together.
    """
    hits = search_all(catalog, queries, start + limit + 1) if hits is None else hits
    results: list[dict[str, Any]] = []
    more = False
    for query, best in zip(queries, hits, strict=False):
        more = more or len(best) > start + limit
        entry: dict[str, Any] = {
            "query": shorten(query, ECHO_CHARS),
            "tools": [
                row_of(spec, access, verbose=verbose) | {"category": spec.category, "score": round(score, 2)}
                for spec, score in best[start : start + limit]
            ],
        }
        if start == 0 and (not best or best[0][1] < WEAK_SCORE):
            entry["note"] = "No tool fits well; try other words or a category."
            entry["categories"] = sorted(catalog.categories)
        results.append(entry)
    return {"results": results} | ({"next_cursor": str(start + limit)} if more else {})


def row_of(spec: ToolSpec, access: Access, *, verbose: bool) -> dict[str, Any]:
    """A tool in a list: its first sentence, or with `verbose` all of its description and its examples."""
    row: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description if verbose else first_sentence(spec.description),
    }
    allowed = access(spec)
    if allowed:
        row["access"] = allowed
    if verbose and spec.examples:
        row["examples"] = spec.examples
    return row


def first_sentence(text: str) -> str:
    """The first sentence, at most `SHORT_CHARS` characters."""
    flat = " ".join(text.split())
    end = flat.find(". ")
    sentence = flat[: end + 1] if end >= 0 else flat
    return shorten(sentence, SHORT_CHARS)


def shorten(text: str, limit: int) -> str:
    """A text of at most this many characters; what was cut shows."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
