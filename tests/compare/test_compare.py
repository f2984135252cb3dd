"""`diff_files` and `checksum` beside the programs that do the same."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.datadesk import Desk

from jaato.errors import CancelledException, ToolError
from jaato.plugins.compare.lines import changes, lines, matching, unified
from jaato.plugins.compare.plugin import ComparePlugin
from jaato.tools.cancel import CancelToken

REQUEST = {"context": 3, "max_lines": 100_000, "names": ["f", "f"]}
TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", " x", "\r", "end"]), max_size=25).flatmap(
    lambda parts: st.sampled_from(["\n".join(parts), "\n".join(parts) + "\n"])
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An empty workspace."""
    return Desk(ComparePlugin, tmp_path / "w")


def test_a_difference_is_a_unified_diff(desk: Desk) -> None:
    """Two files, or a file and a text, with a summary; equal ones say so."""
    (desk.workspace / "a").write_text("one\ntwo\nthree\n")
    (desk.workspace / "b").write_text("one\n2\nthree")
    said = desk.call("diff_files", path="a", other_path="b")
    assert said.text == (
        "--- a/a\n+++ b/b\n@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+three\n\\ No newline at end of file\n"
        "2 lines added, 2 removed."
    )
    assert said.structured["equal"] is False
    assert desk.call("diff_files", path="a", text="one\ntwo\nthree\n").structured["equal"] is True
    blank = desk.call("diff_files", path="a", text=" one\ntwo  \nthree\n", ignore_whitespace=True)
    assert "white space" in blank.text
    with pytest.raises(ToolError, match="either"):
        desk.call("diff_files", path="a")


def test_binary_and_large_files_are_named_as_such(desk: Desk, tmp_path: Path) -> None:
    """Binary files have no lines; one that is too large, a pipe and a path outside are refused."""
    (desk.workspace / "a").write_bytes(b"ab\0c" * 10)
    (desk.workspace / "b").write_bytes(b"ab\0d" * 10)
    assert "difference at byte 3" in desk.call("diff_files", path="a", other_path="b").text
    with open(desk.workspace / "big", "wb") as file:
        file.truncate(40 << 20)
    with pytest.raises(ToolError, match="32 MB"):
        desk.call("diff_files", path="big", other_path="a")
    os.mkfifo(desk.workspace / "pipe")
    with pytest.raises(ToolError, match="pipe"):
        desk.call("diff_files", path="a", other_path="pipe")
    (tmp_path / "out").write_text("x")
    with pytest.raises(ToolError, match="outside"):
        desk.call("diff_files", path="a", other_path="../out")


def test_large_files_without_order_are_compared_in_bounded_time(desk: Desk) -> None:
    """A hundred thousand shuffled lines end with a cut diff; one changed line among as many is found alone."""
    rng = random.Random(1)
    some = [f"{rng.randrange(3000)}\n" for _ in range(100_000)]
    (desk.workspace / "a").write_text("".join(some))
    rng.shuffle(some)
    (desk.workspace / "b").write_text("".join(some))
    said = desk.call("diff_files", path="a", other_path="b", max_lines=50)
    assert said.structured["more"] is True
    assert len(said.text) < 5_000
    some[50_000] = "changed\n"
    said = desk.call("diff_files", path="b", text="".join(some))
    assert (said.structured["added"], said.structured["removed"]) == (1, 1)


@given(TEXTS, TEXTS)
def test_blocks_are_equal_and_in_order(old: str, new: str) -> None:
    """What counts as the same is the same, in order, and nothing is counted twice."""
    before, after = lines(old), lines(new)
    blocks = matching(before, after)
    a = c = 0
    for x, y, size in blocks:
        assert x >= a
        assert y >= c
        assert before[x : x + size] == after[y : y + size]
        a, c = x + size, y + size
    rebuilt: list[str] = []
    place = 0
    for x, end, start, stop in changes(blocks, len(before), len(after)):
        rebuilt += [*before[place:x], *after[start:stop]]
        place = end
    assert "".join([*rebuilt, *before[place:]]) == new


def test_git_applies_our_diffs(tmp_path: Path) -> None:
    """`git apply` turns the one text into the other by our diff, at any context and with any end."""
    rng = random.Random(7)
    for _ in range(40):
        old = [rng.choice("abcd") * rng.randrange(1, 4) for _ in range(rng.randrange(1, 40))]
        new = [line for line in old if rng.random() > 0.15]
        for _ in range(rng.randrange(4)):
            new.insert(rng.randrange(len(new) + 1), f"n{rng.random()}")
        texts = ["\n".join(side) + rng.choice(["", "\n"]) for side in (old, new)]
        if texts[0] == texts[1] or not texts[0].strip() or not texts[1].strip():
            continue
        (tmp_path / "f").write_text(texts[0])
        before, after = lines(texts[0]), lines(texts[1])
        diff, *_ = unified(
            before, after, matching(before, after), {**REQUEST, "context": rng.choice([1, 3, 10])}
        )
        subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff.encode(), check=True)
        assert (tmp_path / "f").read_text() == texts[1]


def test_checksums_are_those_of_the_programs(desk: Desk) -> None:
    """Each algorithm agrees with coreutils; several files at once, equal ones are pointed out, missing ones named."""
    (desk.workspace / "a").write_bytes(os.urandom(3_000_000))
    (desk.workspace / "b").write_bytes((desk.workspace / "a").read_bytes())
    for algorithm, program in (
        ("sha256", "sha256sum"), ("sha512", "sha512sum"), ("sha1", "sha1sum"), ("md5", "md5sum"), ("blake2b", "b2sum"),
    ):  # fmt: skip
        said = desk.call("checksum", paths=["a", "b", "nope"], algorithm=algorithm)
        theirs = subprocess.run(
            [program, "a"], cwd=desk.workspace, capture_output=True, text=True, check=True
        ).stdout
        assert said["files"][0] == {"path": "a", "digest": theirs.split()[0], "size_bytes": 3_000_000}
        assert said["identical"] == [["a", "b"]]
        assert "does not exist" in said["files"][2]["problem"]


def test_a_checksum_is_compared_with_what_is_expected(desk: Desk) -> None:
    """The expected digest matches whatever its case, another does not."""
    (desk.workspace / "a").write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()
    assert desk.call("checksum", paths=["a"], expected=f" {digest.upper()}\n")["matches"] is True
    assert desk.call("checksum", paths=["a"], expected="0" * 64)["matches"] is False
    for bad in (
        {"paths": ["a", "a"], "expected": digest},
        {"paths": ["nope"]},
        {"paths": ["../x"]},
        {"paths": ["/etc/shadow"]},
    ):
        with pytest.raises(ToolError):
            desk.call("checksum", **bad)
    token = CancelToken()
    token.cancel()
    with pytest.raises(CancelledException):
        desk.call("checksum", paths=["a"], token=token)


def test_lines_that_repeat_are_compared_in_time(desk: Desk) -> None:
    """Files of a few different lines, thousands of times, have a diff, and it is a shortest one."""
    (desk.workspace / "a").write_text("a\n" * 4_000)
    (desk.workspace / "b").write_text("a\nb\n" * 2_000)
    said = desk.call("diff_files", path="a", other_path="b", max_lines=100_000).structured
    assert (said["added"], said["removed"]) == (2_000, 2_000)
    (desk.workspace / "c").write_text("}\n\n" * 1_000)
    (desk.workspace / "d").write_text("}\n\nx\n" * 660)
    said = desk.call("diff_files", path="c", other_path="d").structured
    assert (said["added"], said["removed"]) == (660, 680)


@pytest.mark.parametrize("form", ["{}", "sha256:{}", "SHA256:{}", "{}  a", "{} *a\n"])
def test_what_is_expected_is_read_as_pages_and_sums_files_say_it(desk: Desk, form: str) -> None:
    """A digest alone, with its algorithm, or with the file's name, counts."""
    (desk.workspace / "a").write_text("x")
    digest = hashlib.sha256(b"x").hexdigest()
    assert desk.call("checksum", paths=["a"], expected=form.format(digest))["matches"] is True
    assert desk.call("checksum", paths=["a"], expected=form.format("0" * 64))["matches"] is False


@pytest.mark.parametrize("wrong", [hashlib.sha1(b"x").hexdigest(), "", "z" * 64, "md5:" + "0" * 64, "0" * 63])
def test_a_digest_of_another_kind_is_no_mismatch(desk: Desk, wrong: str) -> None:
    """What cannot be the algorithm's digest is refused, so that no good file is called bad."""
    (desk.workspace / "a").write_text("x")
    with pytest.raises(ToolError, match="no sha256 digest"):
        desk.call("checksum", paths=["a"], expected=wrong)
