"""The tool that compares the documents with the manifest notices every kind of drift."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compat.extract import DOCUMENTS, Block, blocks, differences, manifest

ROOT = Path(__file__).parents[2]
FENCED = """# Title

## One

```python
a = 1

b = 2
```

text

### Two
```
plain
```
"""
PLAIN = """Features
Basic usage
from shared import ToolExecutor

executor = ToolExecutor()

Constructor

Creates one.
Constructor
executor = 2

Registration Methods
Configuration
last = 3

end = 4

"""


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Small documents in the places of the real ones."""
    for name in DOCUMENTS:
        (tmp_path / f"{name}.md").write_text("# Nothing\n")
    (tmp_path / "architecture.md").write_text(FENCED)
    (tmp_path / "tool-executor.md").write_text(PLAIN)
    return tmp_path


def test_blocks_are_found_with_and_without_fences(documents: Path) -> None:
    """Each block has its document, heading, number, language and exact text."""
    assert [(b.document, b.heading, b.index, b.language, b.text) for b in blocks(documents)] == [
        (
            "tool-executor",
            "Basic usage",
            1,
            "python",
            "from shared import ToolExecutor\n\nexecutor = ToolExecutor()\n",
        ),
        ("tool-executor", "Constructor", 2, "python", "executor = 2\n"),
        ("tool-executor", "Configuration", 13, "python", "last = 3\n\nend = 4\n"),
        ("architecture", "One", 1, "python", "a = 1\n\nb = 2\n"),
        ("architecture", "Two", 2, "text", "plain\n"),
    ]


def entry(block: Block) -> dict[str, Any]:
    """A block as the manifest has it."""
    return {
        "document": block.document, "heading": block.heading, "index": block.index, "sha256": block.sha256,
        "how": "runs",
    }  # fmt: skip


def test_drift_is_told(documents: Path) -> None:
    """A changed, a new and a vanished block are each named; without drift there is nothing to tell."""
    before = blocks(documents)
    recorded = [entry(block) for block in before]
    assert differences(before, recorded) == []
    path = documents / "architecture.md"
    path.write_text(FENCED.replace("b = 2", "b = 3").replace("plain", "plain ") + "\n```\nnew\n```\n")
    (documents / "tool-executor.md").write_text(PLAIN.replace("Configuration\nlast", "Configuration\n\nlast"))
    told = differences(blocks(documents), recorded)
    assert [line.partition(":")[0] for line in told] == [
        "architecture, block 1 (One)",
        "architecture, block 2 (Two)",
        "architecture, block 3 (Two)",
        "tool-executor, block 13",
    ]
    assert ["changed" in told[0], "changed" in told[1], "not in" in told[2], "no longer" in told[3]] == [
        True
    ] * 4


def test_the_command_says_whether_they_agree(documents: Path) -> None:
    """It ends with 1 and a line for each difference."""
    command = [sys.executable, "-m", "tests.compat.extract", str(documents)]
    environ = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "architecture, block 1 (One): changed" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("5 blocks, ")


def test_the_manifest_counts_every_block_once() -> None:
    """No block is recorded twice, and the numbers of a document have no gap."""
    for document in {entry["document"] for entry in manifest()}:
        numbers = [entry["index"] for entry in manifest() if entry["document"] == document]
        assert numbers == list(range(1, len(numbers) + 1))
