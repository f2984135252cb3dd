"""Identifiers."""

from __future__ import annotations

import re
import time
from typing import get_args

import pytest

from jaato.protocol.ids import Kind, is_id, new_id

KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_says_of_what_it_is(kind: Kind) -> None:
    """An id is its kind's letter and a ULID in Crockford's alphabet, and is recognised as its
    own kind alone.
    """
    text = new_id(kind)
    assert re.fullmatch(rf"{kind}[0-7][0-9A-HJKMNP-TV-Z]{{25}}", text)
    assert is_id(text)
    assert [other for other in KINDS if is_id(text, other)] == [kind]


def test_ids_are_unique_and_sort_by_time() -> None:
    """Ten thousand ids differ, and their first ten digits are the milliseconds since 1970."""
    before = time.time_ns() // 1_000_000
    ids = [new_id("m") for _ in range(10_000)]
    after = time.time_ns() // 1_000_000
    assert len(set(ids)) == 10_000
    stamps = [text[1:11] for text in ids]
    assert stamps == sorted(stamps)
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    for text in (stamps[0], stamps[-1]):
        value = 0
        for digit in text:
            value = value * 32 + alphabet.index(digit)
        assert before <= value <= after


@pytest.mark.parametrize(
    "text", ["", "s", "S" + "0" * 26, "s" + "0" * 25, "s" + "0" * 27, "s" + "I" * 26, "s" + "0" * 26 + "\n"]
)
def test_what_is_no_id(text: str) -> None:
    """Other lengths, letters and endings are not ids."""
    assert not is_id(text)
