"""Derive the code blocks of the specification's documents and compare them with the manifest.

Run it where the documents are at hand: `python -m tests.compat.extract DIRECTORY`. It ends with 1 and says what differs
when a block was added, changed or removed; `--write` brings the committed block files up to date.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MANIFEST = HERE.parents[1] / "docs" / "reference" / "snippets.toml"
SNIPPETS = HERE / "snippets"
SUFFIXES = {"python": "py", "bash": "sh", "json": "json", "mermaid": "mmd"}
DOCUMENTS = ("tool-system", "tool-executor", "arp-tool-registry", "architecture", "design-philosophy")

UNFENCED: dict[str, str | None] = {
    "Basic usage": "Constructor",
    "Constructor": "Registration Methods",
    "Tool registration": "execute()",
    "Executing tools": "Executor metadata tuple",
    "Executor metadata tuple": "Error handling",
    "Error handling": "Permission Integration",
    "Permission configuration": "Permission metadata in result",
    "Permission metadata in result": "Auto-Background",
    "Auto-background result": "Check background task",
    "Check background task": "Output Callbacks",
    "Output callbacks": "Parallel execution",
    "Parallel execution": "Configuration Methods",
    "Configuration": None,
}
"""The blocks of the document that lost its fences, by their titles, and the line each ends before."""


@dataclass(frozen=True)
class Block:
    """A code block: its document, the heading it stands under, its number in the document (from 1), its text."""

    document: str
    heading: str
    index: int
    language: str
    text: str

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from every other block."""
        return self.document, self.index

    @property
    def sha256(self) -> str:
        """The digest of its text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def file_name(self) -> str:
        """The committed file of its text, if it is run or checked."""
        return f"{self.document.replace('-', '_')}_{self.index:02}.{SUFFIXES.get(self.language, 'txt')}"


def fenced(document: str, text: str) -> Iterator[Block]:
    """The blocks between fences."""
    heading, index = "", 0
    language: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("```"):
            if language is None:
                language, lines, index = line[3:].strip() or "text", [], index + 1
            else:
                yield Block(document, heading, index, language, "\n".join(lines) + "\n")
                language = None
        elif language is not None:
            lines.append(line)
        elif line.startswith("#"):
            heading = line.lstrip("# ").strip()


def unfenced(document: str, text: str) -> Iterator[Block]:
    """The blocks under the titles of `UNFENCED`: code follows a title at once, prose after an empty line."""
    lines = text.splitlines()
    for index, (title, end) in enumerate(UNFENCED.items(), start=1):
        starts = [i for i, line in enumerate(lines[:-1]) if line == title and lines[i + 1].strip()]
        if not starts:
            continue
        begin = starts[0] + 1
        rest = lines[begin:]
        block = rest[: rest.index(end)] if end is not None else rest
        yield Block(document, title, index, "python", "\n".join(block).rstrip() + "\n")


def blocks(directory: Path) -> list[Block]:
    """Every code block of the documents in a directory. Raises `FileNotFoundError` for one that is missing."""
    found: list[Block] = []
    for document in DOCUMENTS:
        text = (directory / f"{document}.md").read_text()
        found += unfenced(document, text) if document == "tool-executor" else fenced(document, text)
    return found


def manifest() -> list[dict[str, Any]]:
    """The entries of the committed manifest."""
    entries: list[dict[str, Any]] = tomllib.loads(MANIFEST.read_text())["block"]
    return entries


def differences(found: list[Block], entries: list[dict[str, Any]]) -> list[str]:
    """What the manifest says otherwise than the documents."""
    said = {(entry["document"], entry["index"]): entry for entry in entries}
    problems = []
    for block in found:
        entry = said.pop(block.key, None)
        where = f"{block.document}, block {block.index} ({block.heading})"
        if entry is None:
            problems.append(f"{where}: not in the manifest")
        elif (entry["heading"], entry["sha256"]) != (block.heading, block.sha256):
            problems.append(f"{where}: changed; the manifest has {entry['heading']}, {entry['sha256'][:12]}…")
    return problems + [f"{document}, block {index}: no longer there" for document, index in said]


def write_files(found: list[Block], entries: list[dict[str, Any]]) -> None:
    """Commit the text of every block that is run or checked."""
    run = {(entry["document"], entry["index"]) for entry in entries if entry["how"] != "illustrates"}
    SNIPPETS.mkdir(exist_ok=True)
    for block in found:
        if block.key in run:
            (SNIPPETS / block.file_name).write_text(block.text)


def main(arguments: list[str]) -> int:
    """Compare; the exit code says whether they agree."""
    parser = argparse.ArgumentParser(description="Compare the documents' code blocks with the manifest.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--write", action="store_true", help="write the block files anew")
    options = parser.parse_args(arguments)
    found = blocks(options.directory)
    problems = differences(found, manifest())
    for problem in problems:
        print(problem)
    if options.write:
        write_files(found, manifest())
    print(f"{len(found)} blocks, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
