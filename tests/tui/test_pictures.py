"""The pictures of the documentation can be drawn, load nothing, and show what they are about."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs.terminal_pictures import PICTURES, draw

SHOWN = {
    "terminal-question": ("May updateFile run?", "always", "Tab answers"),
    "terminal-answer-keys": (" y ", "until idle", "comment"),
    "terminal-conversation": ("updateFile", "Done:"),
    "terminal-light": ("Done:",),
    "terminal-sessions": ("rounding (this one)",),
    "terminal-usage": ("by agent", "AGENT"),
    "terminal-context": ("of 32,000 tokens",),
    "terminal-agents": ("callers", "F2 next", "called by its test alone"),
    "terminal-wide": ("Mend the rounding", "return sum(round(price, 2)"),
}


def text_of(svg: str) -> str:
    """The text of a picture."""
    root = ElementTree.fromstring(svg)
    lines = ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("text")]
    return unescape(" ".join(lines)).replace("\xa0", " ")


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_pictures_can_be_drawn(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shows its subject, loads nothing from anywhere, and does not say where it was drawn."""
    monkeypatch.setenv("HOME", str(work.parent))
    drawn = {name: svg async for name, svg in draw(work.parent)}
    assert drawn.keys() == SHOWN.keys()
    for name, svg in drawn.items():
        assert not re.search(r"https?://(?!www\.w3\.org|www\.textualize\.io)|@font-face|@import", svg), name
        assert str(work.parent) not in text_of(svg), name
        for text in SHOWN[name]:
            assert re.sub(r"\s+", "", text) in re.sub(r"\s+", "", text_of(svg)), (name, text)


def test_the_pictures_are_there() -> None:
    """Those of the guide are in the repository, and each is shown in a page."""
    assert {path.stem for path in PICTURES.glob("terminal-*.svg")} == SHOWN.keys()
    root = PICTURES.parents[1]
    pages = (root / "docs/guides/terminal.md").read_text() + (root / "README.md").read_text()
    assert [name for name in SHOWN if f"pictures/{name}.svg" not in pages] == []
