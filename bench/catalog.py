"""What discovery costs: tokens declared, a search and an index, at up to 5,000 tools; recall on data of your own.

The environment variable `TOOL_DISCOVERY_DATA` names a directory as `bench.discovery` reads it; without it the recall is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.discovery import best_cpu_s, judged
from bench.row import Row
from bench.search import QUERIES, tools

from jaato.protocol.specs import ToolSpec
from jaato.settings import environment
from jaato.tools.search.bm25 import Bm25Index
from jaato.tools.search.embeddings import EmbeddingIndex, ToolView, combine_scores, is_installed

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "examples/many-tools/jaato/plugins/many_tools.py"
ROUNDS = 40
VECTORS = 600
"""Tools read for the search by meaning: its cost is the reading of the request, not the number of tools."""
POINTS = {"words": 8.0, "meaning": 10.0}
"""By how many points of recall@5 each search is to be better than the naive one."""


def declared_tokens(count: int) -> int:
    """What the first request of a real process declares when a plugin brings this many tools."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "jaato" / "plugins"
        folder.mkdir(parents=True)
        (folder / PLUGIN.name).write_text(PLUGIN.read_text().replace("COUNT = 5_000", f"COUNT = {count}"))
        made = subprocess.run(
            [sys.executable, "-m", "jaato", "tools", "tokens", "--json"],
            env={**environment(), "XDG_CONFIG_HOME": home, "PYTHONPATH": str(ROOT / "src")},
            cwd=home,
            check=True,
            capture_output=True,
        )
    weighed = json.loads(made.stdout)
    assert len(weighed["tools"]) > count
    return int(weighed["first_request_tokens"])


def spread_ms(search: Callable[[str], object]) -> tuple[float, float]:
    """The median and the 99th percentile of a search's CPU milliseconds, each request asked for the first time once."""
    spent = []
    for round_ in range(ROUNDS):
        for query in QUERIES:
            before = time.process_time()
            search(f"{query} {round_}")
            spent.append(1000 * (time.process_time() - before))
    spent.sort()
    return spent[len(spent) // 2], spent[int(len(spent) * 0.99)]


def meaning_rows(known: list[ToolSpec], index: Bm25Index) -> list[Row]:
    """What a search costs when it goes by meaning too; none without the extra."""
    if not is_installed():
        return []
    with tempfile.TemporaryDirectory() as folder:
        meaning, view = EmbeddingIndex(Path(folder) / "vectors"), ToolView(known[:VECTORS])
        if not meaning.await_view(view, 300.0):
            return []
        half, most = spread_ms(lambda query: combine_scores(index.scores(query), meaning.scores(query, view)))
    against = "words and the reading of the request by the model, one thread"
    return [
        Row("search with meaning, p50", round(half, 2), "CPU ms", None, against),
        Row("search with meaning, p99", round(most, 2), "CPU ms", 25.0, against),
    ]


def recall_rows() -> list[Row]:
    """By how many points recall@5 falls short of what it is to be, on the data set the environment names."""
    data = environment().get("TOOL_DISCOVERY_DATA")
    if not data:
        return []
    tables = judged(Path(data))
    naive = 100 * tables["naive"]["all"]["recall@5"]
    return [
        Row(
            f"recall@5 by {title}, short of naive and {POINTS[title]:g} points",
            round(naive + POINTS[title] - 100 * table["all"]["recall@5"], 1),
            "points",
            0.0,
            f"{100 * table['all']['recall@5']:.1f}; naive BM25 {naive:.1f}",
        )
        for title, table in tables.items()
        if title in POINTS
    ]


def rows() -> list[Row]:
    """All figures of discovery."""
    known = tools(5000)
    index = Bm25Index()
    index.update(known)
    half, most = spread_ms(index.search)
    against = "5,000 tools, five kinds of request"
    declared = [
        Row(
            f"declared at start, {count:,} tools known",
            declared_tokens(count),
            "tokens",
            1200,
            "system prompt too",
        )
        for count in (100, 1000, 5000)
    ]
    return [
        *declared,
        Row("tool search, p50", round(half, 2), "CPU ms", 2.0, against),
        Row("tool search, p99", round(most, 2), "CPU ms", 10.0, against),
        Row(
            "index 5,000 tools",
            round(best_cpu_s(lambda: Bm25Index().update(known)), 3),
            "CPU s",
            0.3,
            "a fresh index",
        ),
        Row(
            "index them again, unchanged",
            round(best_cpu_s(lambda: index.update(known)), 3),
            "CPU s",
            None,
            "by hash",
        ),
        *meaning_rows(known, index),
        *recall_rows(),
    ]
