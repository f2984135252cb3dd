"""What people ask for is found among the tools that everybody has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.asks import COMMON, OTHER, pairs

from jaato.runtime.plugins.setup import create_registry
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.tools.catalog import Catalog
from jaato.tools.search import embeddings
from jaato.tools.search.embeddings import EmbeddingIndex

WAIT_S = 120.0


@pytest.fixture
def known(tmp_path: Path) -> Catalog:
    """The built-in tools, with the search by meaning."""
    blueprint = SessionOptions(workspace=tmp_path)
    registry = create_registry(tmp_path, settings_for(blueprint, tmp_path), "", blueprint)
    catalog = Catalog(EmbeddingIndex(tmp_path / "vectors"))
    catalog.add(registry.catalog)
    registry.shutdown()
    return catalog


def found(known: Catalog, text: str, first: int = 3) -> int:
    """How many of these requests have a right tool among the first few."""
    return sum(
        bool(names & {spec.name for spec, _ in known.search(request, first)})
        for request, names in pairs(text)
    )


def test_the_requests_name_tools_there_are(known: Catalog) -> None:
    """Every tool that a request expects is there."""
    assert {name for _, names in pairs(COMMON + OTHER) for name in names} <= {tool.name for tool in known}


def test_by_words(known: Catalog) -> None:
    """An ordinary request has its tool among the first three, one in other words mostly."""
    known.meaning = None
    assert found(known, COMMON) >= 75, "of 81"
    assert found(known, OTHER) >= 31, "of 47"


def test_creating_a_file_is_no_archive(known: Catalog) -> None:
    """`create a file` finds the tool that does it before any other that has one of the words."""
    known.meaning = None
    for request in ("create a file", "create a new file called notes.txt", "write a file"):
        assert known.search(request, 1)[0][0].name == "writeNewFile"


@pytest.mark.skipif(not embeddings.is_installed(), reason="the extra `semantic` is not installed")
def test_by_meaning(known: Catalog) -> None:
    """With meaning all ordinary requests find their tool, and more of the others."""
    assert known.await_meaning(WAIT_S)
    assert found(known, COMMON) >= 79, "of 81"
    assert found(known, OTHER) >= 33, "of 47"
