"""What content search costs, in CPU time; and many tools to search among."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench.row import Row

from jaato.protocol.specs import ToolSpec
from jaato.tools.cancel import CancelToken
from jaato.tools.filesystem.containment import Roots
from jaato.tools.processes.ripgrep import Pattern, Ripgrep, SearchLimits, Selection

WORDS = """
get list create update delete send search convert analyze export validate schedule merge archive restore
user invoice report image ticket order message file branch calendar metric alert policy backup recipe flight song account token
daily shared remote archived public nested secure temporary weekly draft regional internal nightly signed
"""
VERBS, NOUNS, QUALITIES = (line.split() for line in WORDS.strip().splitlines())
QUERIES = [
    "send the weekly report to the customer",
    "find flights and then book a hotel room near the airport",
    "delete old backups",
    "Where did the archived invoices go?",
    "convert an image, attach it to the ticket, notify the regional team and archive the order afterwards",
]


def tools(count: int) -> list[ToolSpec]:
    """That many different tools with descriptions and four parameters each."""
    made = []
    for number in range(count):
        verb = VERBS[number % len(VERBS)]
        noun = NOUNS[number // len(VERBS) % len(NOUNS)]
        quality = QUALITIES[number // (len(VERBS) * len(NOUNS)) % len(QUALITIES)]
        other = NOUNS[(number * 7 + 3) % len(NOUNS)]
        properties = {
            f"{noun}_id": {"type": "string", "description": f"The id of the {quality} {noun}"},
            f"{other}Name": {"type": "string", "description": f"Name of the {other} it belongs to"},
            "max_results": {"type": "integer", "description": "The most entries to return"},
            "since": {"type": "string", "description": "Only those changed after this time"},
        }
        made.append(
            ToolSpec(
                f"{verb}_{quality}_{noun}_{number}",
                f"{verb.capitalize()} the {quality} {noun} of a workspace, with its {other}.",
                {"type": "object", "properties": properties},
                noun,
            )
        )
    return made


def grep_cpu_s(home: Path) -> float:
    """CPU seconds of one search through a tree, ripgrep's included."""
    ripgrep = Ripgrep(Roots(home))
    wanted = Pattern(r"def \w+_9\(")
    spent = []
    for _ in range(3):
        before = os.times()
        limits = SearchLimits(CancelToken())
        files = ripgrep.files(Selection("."), limits)
        counts = ripgrep.counts(Selection("."), wanted, limits)
        shown = [str(home / name) for name in files if name in counts][:100]
        assert len(list(ripgrep.lines(shown, wanted, 0, 100, limits))) == 100
        after = os.times()
        spent.append(sum(after[:4]) - sum(before[:4]))
    return min(spent)


def rows() -> list[Row]:
    """A search through 2,000 files."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory).resolve()
        for number in range(2000):
            path = home / f"d{number % 40}" / f"f{number}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(
                "".join(f"def work_{number}_{line}(x):\n    return x + {line}\n" for line in range(40))
            )
        spent = round(grep_cpu_s(home), 3)
    return [Row("search 2,000 files", spent, "CPU s", None, "5 MB of text, a hundred matches shown")]
