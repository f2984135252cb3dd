"""Whole searches agree: any files, any pattern, any bounds, ripgrep or Python, with the same answer to the letter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.search.desk import ENGINES, call_tool
from tests.search.test_pattern import ANCHORED

from jaato.plugins.search import walk

PIECE = st.sampled_from(
    [b"alpha ", b"a", b"beta", b"\n", b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"\xc3", "é".encode(), "日".encode(), b" ",
     b"\t", b"x" * 30, b"1", b"_", b"\x0c", "\u2028".encode(), b"\xef\xbb\xbf", "K\u212a".encode()]
)  # fmt: skip
CONTENT = st.builds(
    lambda mark, pieces, wide: mark + b"".join(pieces) if wide is None else mark_of(wide, b"".join(pieces)),
    st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]),
    st.lists(PIECE, max_size=12),
    st.sampled_from([None, None, None, "utf-16-le", "utf-16-be"]),
)


def mark_of(encoding: str, data: bytes) -> bytes:
    """The bytes' text in UTF-16 with its mark."""
    return ("\ufeff" + data.decode("utf-8", "replace")).encode(encoding)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    contents=st.dictionaries(st.sampled_from("abcdef"), CONTENT, max_size=5),
    pattern=ANCHORED,
    ignore_case=st.booleans(),
    context=st.integers(0, 2),
    most=st.sampled_from([1, 2, 5, 1000]),
)
def test_both_engines_answer_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    contents: dict[str, bytes],
    pattern: str,
    ignore_case: bool,
    context: int,
    most: int,
) -> None:
    """Text and data of `grep_content` do not tell which engine has searched."""
    home: Path = tmp_path_factory.mktemp("tree")
    for name, data in contents.items():
        (home / name).write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "TIME_LIMIT_S", 2.0)
        theirs, ours = (
            call_tool(
                home,
                "grep_content",
                engine,
                pattern=pattern,
                ignore_case=ignore_case,
                context=context,
                max_results=most,
            )
            for engine in ENGINES
        )
    assume("stopped" not in ours.structured)  # what takes Python for ever is ended, see test_pattern
    assert ours == theirs
    assert not [name for name in os.listdir(home) if name not in contents]
