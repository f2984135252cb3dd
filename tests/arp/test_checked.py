"""What is believed of a registry: names that can be shown and asked for, definitions that fit where they are kept."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import hypothesis.strategies as st
from hypothesis import given

from jaato.plugins.arp.cache import (
    MAX_BYTES,
    MAX_DEFINITIONS,
    CachedDefinition,
    CachedDefinitions,
    fitting,
    load_definitions,
    save,
)
from jaato.plugins.arp.remote_registry import path_of
from jaato.plugins.arp.validation import is_destructive, usable_views
from jaato.protocol.arp import ToolDefinition, ToolView
from jaato.tools.invisible_text import find_invisible


@given(st.lists(st.builds(ToolView, st.text(max_size=30), st.text(max_size=30)), max_size=20))
def test_names(views: list[ToolView]) -> None:
    """Every name that is offered is there once, can be seen, and is asked for by one segment of a path that means it."""
    kept, dropped = usable_views(views)
    names = [view.name for view in kept]
    assert len(names) == len(set(names))
    assert len(kept) == len(views) or dropped
    for view in kept:
        path = path_of(view.name)
        assert path.isascii()
        assert path.count("/") == 3
        assert unquote(path.rpartition("/")[2]) == view.name
        assert path.rpartition("/")[2].strip(".")
        assert not find_invisible(view.name + view.description)


@given(
    st.lists(st.text(max_size=20)),
    st.one_of(st.text(max_size=20), st.dictionaries(st.text(max_size=9), st.text())),
)
def test_tags(tags: list[str], source: dict[str, object] | str) -> None:
    """Whatever tags and source say, a word that means care among them counts."""
    made = ToolDefinition("0.1.0", "x", "x", "1", {}, tags=tags, source=source)
    again = ToolDefinition(
        "0.1.0", "x", "x", "1", {}, tags=[*tags, "Read-Only", "DESTRUCTIVE!"], source=source
    )
    assert isinstance(is_destructive(made), bool)
    assert is_destructive(again)


def test_definitions_that_do_not_fit(tmp_path: Path) -> None:
    """Where there is no room for all definitions, those asked for last are kept."""

    def made(count: int, chars: int) -> CachedDefinitions:
        one = ToolDefinition("0.1.0", "x", "x" * chars, "1", {})
        return CachedDefinitions("d", {str(at): CachedDefinition(one, at) for at in range(count)})

    many = made(MAX_DEFINITIONS + 10, 10)
    save(tmp_path, many)
    assert list(load_definitions(tmp_path, "d").tools) == [str(at) for at in range(10, MAX_DEFINITIONS + 10)]
    large = made(30, 1_000_000)
    assert len(fitting(large)) <= MAX_BYTES
    assert list(large.tools) == [str(at) for at in range(16, 30)]
