"""How often a search finds the right tool: recall and rank per kind of query, by words, with meaning, by naive BM25.

The data set is a directory with `tools.jsonl` ({name, description, parameters, category}) and `queries.jsonl`
({kind, query, relevant: [names], accept: [interchangeable names]}), the first argument; default `bench/data/discovery`. With the
extra `semantic` the tools' vectors are made first (250 a second) and kept in the user's cache.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from bench.row import Row

from jaato.protocol.specs import ToolSpec
from jaato.settings import environment, user_dir
from jaato.tools.search.bm25 import Bm25Index, best_scores
from jaato.tools.search.embeddings import EmbeddingIndex, ToolView, combine_scores

DATA = Path(__file__).parent / "data" / "discovery"
CUTS = (1, 3, 5, 10)
DEPTH = 50
WAIT_S = 300.0
Search = Callable[[str, int], list[str]]


@dataclass(frozen=True)
class Query:
    """A request in words, the tools that serve it and those that would do as well."""

    kind: str
    query: str
    relevant: list[str]
    accept: list[str]


class Naive:
    """BM25 (k1 1.2, b 0.75) over the lower-case words of name and description, each word of a query once."""

    def __init__(self, tools: list[ToolSpec]) -> None:
        self.documents = {tool.name: self.words(self.text(tool)) for tool in tools}
        self.counts = {name: Counter(words) for name, words in self.documents.items()}
        self.average = sum(map(len, self.documents.values())) / max(1, len(self.documents))
        self.having: dict[str, list[str]] = defaultdict(list)
        for name, counts in self.counts.items():
            for word in counts:
                self.having[word].append(name)

    @staticmethod
    def text(tool: ToolSpec) -> str:
        return f"{tool.name} {tool.description}"

    @staticmethod
    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    def search(self, query: str, limit: int) -> list[str]:
        scores: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(self.words(query)):
            names = self.having.get(word, [])
            idf = math.log(1 + (len(self.documents) - len(names) + 0.5) / (len(names) + 0.5))
            for name in names:
                often = self.counts[name][word]
                length = len(self.documents[name]) / self.average
                scores[name] += idf * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * length))
        return sorted(scores, key=lambda name: (-scores[name], name))[:limit]


def load(data: Path) -> tuple[list[ToolSpec], list[Query]]:
    """The tools and queries of a data set."""
    tools = [
        ToolSpec(
            line["name"],
            line["description"],
            line.get("parameters", {}),
            line.get("category", "uncategorized"),
        )
        for line in map(msgspec.json.decode, (data / "tools.jsonl").read_bytes().splitlines())
    ]
    queries = [
        msgspec.json.decode(line, type=Query) for line in (data / "queries.jsonl").read_bytes().splitlines()
    ]
    return tools, queries


def judge(queries: list[Query], search: Search) -> dict[str, dict[str, float]]:
    """Per kind and over all: recall at each cut, how often any right tool is first, mean reciprocal rank.

    Recall is of the tools named as relevant alone; for the first rank one that does as well counts too.
    """
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for query in queries:
        ranked = search(query.query, DEPTH)
        good = set(query.relevant) | set(query.accept)
        first = next((rank for rank, name in enumerate(ranked, 1) if name in good), None)
        row: dict[str, float] = {"n": 1, "hit@1": float(first == 1), "MRR": 1 / first if first else 0.0}
        for cut in CUTS:
            found = set(query.relevant) & set(ranked[:cut])
            row[f"recall@{cut}"] = len(found) / len(query.relevant)
        for kind in (query.kind, "all"):
            sums[kind].update(row)
    return {
        kind: {name: total / sums[kind]["n"] if name != "n" else total for name, total in totals.items()}
        for kind, totals in sums.items()
    }


def best_cpu_s(work: Callable[[], Any], times: int = 3) -> float:
    """The least CPU seconds of several runs."""
    spent = []
    for _ in range(times):
        before = time.process_time()
        work()
        spent.append(time.process_time() - before)
    return min(spent)


Table = dict[str, dict[str, float]]


def searches(tools: list[ToolSpec]) -> dict[str, Search]:
    """The ways of searching by their titles; the one with meaning where its extra is installed."""
    index = Bm25Index()
    index.update(tools)
    ways: dict[str, Search] = {"naive": Naive(tools).search}
    ways["words"] = lambda query, limit: [name for name, _ in index.search(query, limit)]
    meaning = EmbeddingIndex(user_dir(environment(), "XDG_CACHE_HOME", ".cache") / "bench-vectors")
    view = ToolView(tools)
    if meaning.await_view(view, WAIT_S):
        ways["meaning"] = lambda query, limit: [
            name
            for name, _ in best_scores(
                combine_scores(index.scores(query), meaning.scores(query, view)), limit
            )
        ]
    return ways


def judged(data: Path) -> dict[str, Table]:
    """Every way of searching, judged on one data set."""
    tools, queries = load(data)
    return {title: judge(queries, search) for title, search in searches(tools).items()}


def rows(data: Path = DATA) -> list[Row]:
    """Recall@5, hit@1 and MRR over all queries beside the naive search's."""
    tables = judged(data)
    naive = tables.pop("naive")
    against = f"naive BM25 on {data.name}: "
    return [
        Row(
            f"tool search by {title}, {name}",
            round(table["all"][name], 3),
            "share",
            None,
            f"{against}{naive['all'][name]:.3f}",
        )
        for title, table in tables.items()
        for name in ("recall@5", "hit@1", "MRR")
    ]


def main() -> None:
    """Print the whole table for the data set named by the first argument."""
    tables = judged(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    names = [f"recall@{cut}" for cut in CUTS] + ["hit@1", "MRR"]
    sys.stdout.write(f"{'':22}{'n':>6}" + "".join(f"{name:>11}" for name in names) + "\n")
    for kind in sorted(tables["naive"]):
        for title, table in tables.items():
            shown = "".join(f"{table[kind][name]:>11.3f}" for name in names)
            sys.stdout.write(f"{kind + ' ' + title:22}{int(table[kind]['n']):>6}{shown}\n")


if __name__ == "__main__":
    main()
