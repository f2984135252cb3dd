"""The index kept between runs: the same answers, from a private file that nothing depends on."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from bench.search import QUERIES, tools
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato.protocol.specs import ToolSpec
from jaato.tools import index_file, sorted_lines
from jaato.tools.near import near, table
from jaato.tools.search import KEPT_FROM, Index
from jaato.tools.tool_terms import weights_of
from jaato.tools.words import stem

MANY = tools(300)


def indexed(folder: Path | None, known: list[ToolSpec]) -> Index:
    """An index of these tools."""
    index = Index(folder)
    index.update(known)
    return index


def answers(index: Index) -> list[list[str]]:
    """What it finds for each of several requests."""
    return [[name for name, _ in index.search(query, 5)] for query in QUERIES]


def files(folder: Path) -> list[Path]:
    """The files kept."""
    return sorted(folder.glob("*.index"))


def note_reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the names of the tools whose texts are read from now on."""
    read: list[str] = []

    def noted(tool: ToolSpec) -> dict[str, float]:
        read.append(tool.name)
        return weights_of(tool)

    monkeypatch.setattr("jaato.tools.search.weights_of", noted)
    return read


def test_the_same_tools_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next index of the same tools reads none of them and answers as the first did; the file is private."""
    first = indexed(tmp_path, MANY)
    (path,) = files(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    read = note_reading(monkeypatch)
    second = indexed(tmp_path, list(MANY))
    assert answers(second) == answers(first)
    assert read == []
    assert len(second) == len(MANY)
    assert second.search(MANY[7].name)[0] == (MANY[7].name, 1.0)


def test_only_what_differs_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nearly the same tools the new and changed ones alone are read, and those gone are not found."""
    indexed(tmp_path, MANY)
    other = [*MANY[3:], ToolSpec("polish_shoes", "Polish the shoes.", {})]
    other[0] = ToolSpec(other[0].name, "Peels a banana.", {})
    read = note_reading(monkeypatch)
    index = indexed(tmp_path, other)
    assert read == [other[0].name, "polish_shoes"]
    assert answers(index) == answers(indexed(None, other))
    assert index.search("banana")[0][0] == other[0].name
    assert index.search("polish the shoes")[0][0] == "polish_shoes"
    assert MANY[0].name not in [name for name, _ in index.search(MANY[0].name, 1000)]
    index.update(MANY)
    assert answers(index) == answers(indexed(None, MANY))
    assert index.search("banana") == []


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.lists(st.sampled_from(range(260)), max_size=30), max_size=3))
def test_however_it_came_there_it_answers_the_same(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[int]]
) -> None:
    """Any changes after a start from the file lead where a fresh index is."""
    folder = tmp_path_factory.mktemp("index")
    known = MANY[:260]
    indexed(folder, known)
    index = indexed(folder, known)
    for step in steps:
        known = [tool for at, tool in enumerate(known) if at not in step] + [
            ToolSpec(f"new_{at}", f"Sends report {at}.", {}) for at in step
        ]
        known = list({tool.name: tool for tool in known}.values())
        index.update(known)
    assert answers(index) == answers(indexed(None, known))


@pytest.mark.parametrize(
    "harm", ["cut", "flip", "empty", "text", "directory", "fifo", "other way of reading"]
)
def test_a_damaged_file_is_ignored(tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut, changed, empty, foreign, of another version or no file at all: the tools are read afresh."""
    expected = answers(indexed(tmp_path, MANY))
    (path,) = files(tmp_path)
    content = path.read_bytes()
    match harm:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "flip":
            middle = len(content) // 2
            path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_bytes(b"x" * len(content))
        case "directory" | "fifo":
            path.unlink()
            path.mkdir() if harm == "directory" else os.mkfifo(path)
        case _:
            monkeypatch.setattr(index_file, "version", lambda: b"0" * 16)
    read = note_reading(monkeypatch)
    assert answers(indexed(tmp_path, MANY)) == expected
    assert len(read) == len(MANY)


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    """Where a file is in the place of the folder, searches answer all the same."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert answers(indexed(blocked, MANY)) == answers(indexed(None, MANY))


def test_few_files_are_kept(tmp_path: Path) -> None:
    """Many different sets of tools leave a handful of files; few tools leave none."""
    for start in range(10):
        indexed(tmp_path, tools(KEPT_FROM + start))
    assert len(files(tmp_path)) <= index_file.MAX_FILES
    indexed(tmp_path / "few", MANY[: KEPT_FROM - 1])
    assert not (tmp_path / "few").exists()


def test_strange_tools_are_searched_from_a_file_too(tmp_path: Path) -> None:
    """Names with line breaks, other scripts and lone surrogates are found, whether or not they can be kept."""
    odd = [
        ToolSpec("a\nb 1 2\n", "Zebra.", {}),
        ToolSpec("画像のサイズ", "日本語 の ツール", {}),
        ToolSpec("", "", {}),
    ]
    for extra in (odd, [*odd, ToolSpec("x\ud800", "Surrogate \ud800 giraffe.", {})]):
        known = [*MANY, *extra]
        for _ in range(2):
            index = indexed(tmp_path / str(len(extra)), known)
            assert index.search("zebra")[0][0] == "a\nb 1 2\n"
            assert index.search("日本語")[0][0] == "画像のサイズ"


@given(
    st.dictionaries(st.text("abyz~", min_size=1, max_size=4), st.text("xyz ", max_size=4)), st.text("abyz~")
)
def test_a_line_is_found_where_it_is(lines: dict[str, str], other: str) -> None:
    """The rest of the line of each key, and nothing for another."""
    text = b"\n" + b"".join(sorted(f"{key} {rest}\n".encode() for key, rest in lines.items()))
    for key, rest in lines.items():
        assert sorted_lines.line_of(text, key.encode()) == rest.encode()
    if other not in lines:
        assert sorted_lines.line_of(text, other.encode()) is None


def test_words_that_mean_alike_are_near() -> None:
    """Each line of the table can be found; words of one meaning are near, others not."""
    lines = table().decode().split("\n")[1:-1]
    assert lines == sorted(lines)
    assert all(near(line.partition(" ")[0]) for line in lines[::50])
    for one, other in (
        ("automobile", "car"),
        ("trash", "garbage"),
        ("physician", "doctor"),
        ("delete", "erase"),
    ):
        assert stem(other) in dict(near(stem(one)))
    assert stem("banana") not in dict(near(stem("invoice")))
    assert near("nosuchword") == near("日本") == ()
