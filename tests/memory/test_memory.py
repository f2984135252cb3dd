"""Notes that last, by several processes at once and in files that strangers prepared."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins import memory as notes
from jaato.plugins.memory import MemoryPlugin
from jaato.tools.filesystem import private_directory

WRITER = """
import sys
from pathlib import Path
from jaato.plugins.memory import Notes
from jaato.tools.filesystem.private_directory import PrivateDirectory
kept = Notes(PrivateDirectory(Path(sys.argv[1]), ".jaato", "memory"))
for number in range(int(sys.argv[3])):
    kept.add(f"fact {number} of writer {sys.argv[2]}", ["w" + sys.argv[2]], None, "")
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An empty workspace."""
    return Desk(MemoryPlugin, tmp_path / "w")


def file_of(desk: Desk) -> Path:
    """Where the notes are."""
    return desk.workspace / ".jaato" / "memory" / "memories.jsonl"


def test_what_was_stored_is_found_by_its_words_and_tags(desk: Desk) -> None:
    """A later session finds a note by a question, by tags, or as the newest; nothing that fits is said plainly."""
    first = desk.call(
        "store_memory", content="Deploy with `make ship`, never by hand.", tags=["Deploy", "the build"]
    )
    desk.call("store_memory", content="The database is PostgreSQL 16.", tags=["build"])
    later = Desk(MemoryPlugin, desk.workspace)
    found = later.call("retrieve_memories", query="how do we deploy?")
    assert [note["id"] for note in found["memories"]] == [first["id"]]
    assert found["memories"][0]["tags"] == ["deploy", "the-build"]
    newest = later.call("retrieve_memories", limit=1)
    assert newest["memories"][0]["content"].startswith("The database")
    assert newest["next_offset"] == 1
    assert later.call("retrieve_memories", offset=1)["memories"][0]["id"] == first["id"]
    assert later.call("retrieve_memories", tags=["THE build"])["found"] == 1
    assert later.call("retrieve_memories", query="deploy", tags=["build"])["found"] == 0
    assert "list_memory_tags" in later.call("retrieve_memories", query="zebra")["note"]
    assert later.call("list_memory_tags")["tags"][0] == {"tag": "build", "count": 1}
    assert later.call("list_memory_tags", limit=1)["more_tags"] == 2


def test_a_note_is_corrected_and_never_kept_twice(desk: Desk) -> None:
    """`replaces` puts a note in the place of another; the same words again add their tags alone."""
    first = desk.call("store_memory", content="Port 80", tags=["a"])
    assert desk.call("store_memory", content="Port 81", replaces=first["id"])["total"] == 1
    again = desk.call("store_memory", content="Port 81", tags=["b"])
    assert again == {"id": first["id"], "tags": ["b"], "total": 1}
    assert [json.loads(line)["content"] for line in file_of(desk).read_text().splitlines()] == ["Port 81"]
    with pytest.raises(ToolError, match="retrieve_memories"):
        desk.call("store_memory", content="x", replaces="n0")
    for empty in ({"content": " \n"}, {"content": "x", "tags": [" "]}):
        with pytest.raises(ToolError, match="empty"):
            desk.call("store_memory", **empty)


def test_ten_processes_at_once_lose_nothing(desk: Desk) -> None:
    """Every note of ten writers is there, whole, and nothing else is left in the directory."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(desk.workspace), str(number), "12"])
        for number in range(10)
    ]
    assert [writer.wait() for writer in writers] == [0] * 10
    assert {tag["count"] for tag in desk.call("list_memory_tags")["tags"]} == {12}
    contents = {json.loads(line)["content"] for line in file_of(desk).read_text().splitlines()}
    assert len(contents) == 120
    assert sorted(os.listdir(file_of(desk).parent)) == [".lock", "memories.jsonl"]
    assert (
        desk.call("retrieve_memories", query="fact 7 of writer 3", limit=1)["memories"][0]["content"]
        in contents
    )


def test_damaged_lines_hide_nothing_and_are_kept(desk: Desk) -> None:
    """What is no note is passed over and counted; another note does not remove it from the file."""
    desk.call("store_memory", content="good")
    strange = [b"{", b"\xff\xfe", b'{"id":1}', b"[" * 100_000, b'{"id":"n","at":"","content":"\\ud800"}']
    with file_of(desk).open("ab") as file:
        file.write(b"\n".join(strange))
    said = desk.call("retrieve_memories")
    assert [note["content"] for note in said["memories"]] == ["good"]
    assert said["damaged"].startswith(f"{len(strange)} lines of .jaato/memory/memories.jsonl")
    desk.call("store_memory", content="better")
    lines = file_of(desk).read_bytes().splitlines()
    assert set(strange) < set(lines)
    assert desk.call("retrieve_memories")["found"] == 2


def test_the_memory_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full memory takes corrections alone; a note, a tag, a file of any size a stranger gave are bounded."""
    monkeypatch.setattr(notes, "MAX_NOTES", 2)
    first = desk.call("store_memory", content="one")
    desk.call("store_memory", content="two")
    with pytest.raises(ToolError, match="replaces"):
        desk.call("store_memory", content="three")
    desk.call("store_memory", content="3", replaces=first["id"])
    assert desk.tools["store_memory"].issues({"content": "x" * 8_001})
    assert desk.tools["store_memory"].issues({"content": "x", "tags": ["t"] * 17})
    line = {"id": "n" * 99, "at": "", "content": "y" * 99_999, "tags": ["t" * 99] * 99}
    file_of(desk).write_text(json.dumps(line))
    assert len(json.dumps(desk.call("retrieve_memories"))) < 10_000
    with file_of(desk).open("wb") as file:
        file.truncate(9 << 20)
    with pytest.raises(ToolError, match="Shorten it"):
        desk.call("retrieve_memories")


@pytest.mark.parametrize("part", [".jaato", ".jaato/memory", ".jaato/memory/memories.jsonl"])
def test_links_are_not_followed(desk: Desk, tmp_path: Path, part: str) -> None:
    """A workspace that leads the memory elsewhere by a link has nothing written there, and nothing read."""
    victim = tmp_path / "victim"
    target = victim if part.endswith("jsonl") else tmp_path / "dir"
    if target is victim:
        victim.write_text('{"id":"n1","at":"","content":"secret"}\n')
    else:
        (target / "memory").mkdir(parents=True)
    link = desk.workspace / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    with pytest.raises(ToolError, match="link"):
        desk.call("retrieve_memories")
    with pytest.raises(ToolError, match="link"):
        desk.call("store_memory", content="x")
    assert target is not victim or "secret" in victim.read_text()
    assert target is victim or os.listdir(target) == ["memory"]
    assert target is victim or os.listdir(target / "memory") == []


def test_a_process_that_keeps_the_lock_is_not_waited_for_in_vain(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who stopped while writing makes a call fail in the end, with what to do; reading goes on."""
    monkeypatch.setattr(private_directory, "LOCK_WITHIN_S", 0.05)
    desk.call("store_memory", content="one")
    with (file_of(desk).parent / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ToolError, match="Try again"):
            desk.call("store_memory", content="two")
        assert desk.call("retrieve_memories")["found"] == 1
    assert desk.call("store_memory", content="two")["total"] == 2


def test_a_pipe_in_the_place_of_the_file_holds_nobody_up(desk: Desk) -> None:
    """What is no regular file is refused at once."""
    file_of(desk).parent.mkdir(parents=True)
    os.mkfifo(file_of(desk))
    with pytest.raises(ToolError, match="no regular file"):
        desk.call("retrieve_memories")


def test_notes_of_strangers_are_shown_in_bounds(desk: Desk) -> None:
    """Of a file full of tiny notes the newest are searched; what cannot be seen is spelt out."""
    file_of(desk).parent.mkdir(parents=True)
    lines = [
        {"id": f"{number:x}", "at": "", "content": "zebra crossing"} for number in range(notes.MAX_NOTES)
    ]
    oldest = {"id": "old\n\u202e", "at": "\x1b", "content": "old\u200b zebra", "tags": ["a\nb"]}
    file_of(desk).write_text("\n".join([json.dumps(oldest), *map(json.dumps, lines)]))
    assert desk.call("retrieve_memories", query="zebra")["found"] == notes.MAX_NOTES
    [note] = desk.call("retrieve_memories", offset=notes.MAX_NOTES)["memories"]
    assert note == {"id": "old \\u202e", "at": "\\x1b", "content": "old\\u200b zebra", "tags": ["a b"]}
    assert desk.call("list_memory_tags")["tags"] == [{"tag": "a b", "count": 1}]
