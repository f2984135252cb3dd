"""Patterns that are compiled when they are first used match as those that are compiled at once."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaato
from jaato.lazy_pattern import lazy_pattern, matches_glob

LETTERS = "ab*?[]!-"


@given(st.text("ab-[]*?", max_size=8), st.text(LETTERS, max_size=8))
def test_a_glob_matches_as_in_fnmatch(name: str, glob: str) -> None:
    """With asterisks at its ends, in its middle, and with every other wild character."""
    assert matches_glob(name, glob) is fnmatchcase(name, glob)


@given(st.text("abc ", max_size=12))
def test_each_method_gives_what_the_compiled_pattern_gives(text: str) -> None:
    """The first use, which compiles it, and the next."""
    compiled = re.compile("(a)b|c", re.IGNORECASE)
    late = lazy_pattern("(a)b|c", re.IGNORECASE)
    for _ in range(2):
        assert late.findall(text) == compiled.findall(text)
        assert late.sub("x", text) == compiled.sub("x", text)
        assert late.split(text) == compiled.split(text)
        assert [found.span() for found in late.finditer(text)] == [
            found.span() for found in compiled.finditer(text)
        ]
        for method in ("search", "match", "fullmatch"):
            found, other = getattr(late, method)(text), getattr(compiled, method)(text)
            assert (found and found.span()) == (other and other.span())
    assert (late.pattern, late.flags, late.groups) == ("(a)b|c", re.IGNORECASE, 1)


@pytest.mark.parametrize("used", [False, True])
def test_a_copy_is_such_a_pattern_too(used: bool) -> None:
    """As with a compiled one, for objects that have one and are copied or passed to another process."""
    late = lazy_pattern("(a)b|c", re.IGNORECASE)
    if used:
        late.search("ab")
    for made in (copy.copy(late), copy.deepcopy(late), pickle.loads(pickle.dumps(late))):
        assert made.fullmatch("AB")
        assert not made.fullmatch("b")


def test_a_mistake_is_found_when_it_is_used() -> None:
    """It is the error of `re.compile`."""
    wrong = lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.search("x")


def test_every_pattern_of_the_package_can_be_compiled() -> None:
    """A mistake in one that is used seldom is found here."""
    root = Path(jaato.__file__).parent
    found = 0
    for path in root.rglob("*.py"):
        if " = lazy_pattern(" not in path.read_text() or path.name == "lazy_pattern.py":
            continue
        module = importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
        for value in vars(module).values():
            if type(value).__name__ == "lazy_pattern":
                assert value.groups >= 0
                found += 1
    assert found > 50
