"""Reference documents: what is declared is listed, what is selected is read, and nothing more happens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.references import MAX_PROBLEMS, ReferencesPlugin, load_declarations
from jaato.tools.filesystem.private_directory import SourceDirectory


class UserDesk(Desk):
    """A workspace of a user who has a configuration directory."""

    def service(self, name: str) -> Any:
        """The settings, as far as a plugin asks for them."""
        if name == "settings":
            return SimpleNamespace(config_dir=self.workspace.parent / "config")
        raise KeyError(name)

    def put(self, path: str, content: str | bytes) -> None:
        """A file, with its directories."""
        place = self.workspace / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    def declare(self, *sources: Any) -> None:
        """The workspace's declarations."""
        self.put(".jaato/references.json", json.dumps({"sources": sources}))

    def ids(self) -> list[str]:
        """What is listed."""
        return [row["id"] for row in self.call("listReferences")["references"]]


@pytest.fixture
def desk(tmp_path: Path) -> UserDesk:
    """An empty workspace."""
    return UserDesk(ReferencesPlugin, tmp_path / "w")


def test_declared_documents_are_listed_and_read(desk: UserDesk) -> None:
    """Files, words and pages from JSON and from the directory, of the workspace and the user; pages are only named."""
    assert "references.json" in desk.call("listReferences")["note"]
    desk.put("docs/api.md", "\ufeff# API\nUse nouns.\n")
    desk.put(".jaato/references/style guide.md", "# Style\n\nShort lines.\nMore.\n")
    desk.put(".jaato/references/one.json", '{"id": "inline", "content": "Be kind.", "type": "inline"}')
    desk.put(".jaato/references/run.sh", "touch made")
    desk.put("../config/references/mine.txt", "My own rules")
    desk.declare(
        {"id": "api", "name": "The API", "type": "local", "path": "docs/api.md", "tags": ["Code"]},
        {"id": "page", "url": "http://127.0.0.1:1/", "fetchHint": "later", "description": "x\ny"},
    )
    assert desk.ids() == ["api", "page", "inline", "style-guide", "mine"]
    rows = {row["id"]: row for row in desk.call("listReferences")["references"]}
    assert rows["api"] == {
        "id": "api",
        "name": "The API",
        "kind": "file",
        "owner": "workspace",
        "tags": ["code"],
    }
    assert (rows["style-guide"]["name"], rows["style-guide"]["description"]) == ("Style", "Short lines.")
    assert rows["mine"]["owner"] == "user"
    assert desk.call("listReferences", tags=["CODE"])["total"] == 1
    text = desk.call("selectReferences", ids=["api", "inline", "style-guide", "mine", "page"]).text
    for words in ("# API\nUse nouns.", "Be kind.", "Short lines.", "My own rules", "not fetched; fetch_url"):
        assert words in text
    assert desk.call("selectReferences", tags=["code"]).structured["references"][0]["id"] == "api"


def test_what_is_not_there_is_named_with_what_is(desk: UserDesk) -> None:
    """Unknown ids and tags, and no choice at all, say what to do."""
    desk.declare({"id": "api-guide", "content": "x"})
    with pytest.raises(ToolError, match="api-guide"):
        desk.call("selectReferences", ids=["API-Guide"])
    with pytest.raises(ToolError, match="listReferences"):
        desk.call("selectReferences", tags=["none"])
    with pytest.raises(ToolError, match="ids or tags"):
        desk.call("selectReferences")


def test_damaged_declarations_hide_no_others(desk: UserDesk) -> None:
    """What is wrong is told, and the rest is listed."""
    desk.put(".jaato/references/a.json", b"\xff{")
    desk.put(".jaato/references/b.json", "[" * 100_000)
    desk.put(".jaato/references/c.json", "7")
    desk.put(".jaato/references/d.md", b"\xff\xfe\x00" * 9_000)
    os.mkfifo(desk.workspace / ".jaato/references/e.md")
    desk.declare(
        1,
        {"id": 2, "content": "x"},
        {"id": "///", "content": "x"},
        {"id": "empty"},
        *[{"id": "ok", "content": "x"}] * 2,
    )
    said = desk.call("listReferences")
    assert [row["id"] for row in said["references"]] == ["ok", "d"]
    assert len(said["problems"]) == 8
    assert "no text" in desk.call("selectReferences", ids=["d"]).text


def test_a_workspace_cannot_have_files_read_from_elsewhere(desk: UserDesk, tmp_path: Path) -> None:
    """Paths that leave, by name or by link, are refused; the other documents are read all the same."""
    (tmp_path / "secret").write_text("hidden words")
    (desk.workspace / "link").symlink_to(tmp_path / "secret")
    desk.declare(
        {"id": "up", "path": "../secret"},
        {"id": "link", "path": "link"},
        {"id": "abs", "path": "/etc/passwd"},
        {"id": "dir", "path": ".jaato"},
        {"id": "good", "content": "fine"},
    )
    text = desk.call("selectReferences", ids=["up", "link", "abs", "dir", "good"]).text
    assert "hidden words" not in text
    assert "root:" not in text
    assert text.count("It cannot be read") == 4
    assert "fine" in text
    (desk.workspace / ".jaato/references").symlink_to(tmp_path)
    assert "link" in desk.call("listReferences")["problems"][0]


def test_large_documents_are_cut(desk: UserDesk) -> None:
    """An answer has a bound, and says how to read on; a document of any size costs no memory."""
    desk.put("words.md", "é" * 50_000)
    with (desk.workspace / "huge.txt").open("wb") as file:
        file.write(b"x" * 300_000)
        file.truncate(1 << 40)
    desk.declare(
        {"id": "a", "path": "words.md"}, {"id": "b", "path": "huge.txt"}, {"id": "c", "content": "tail"}
    )
    said = desk.call("selectReferences", ids=["a", "b", "c"])
    assert [row["chars"] for row in said.structured["references"]] == [50_000, 10_000, 0]
    assert "readFile reads on in 'huge.txt'" in said.text
    assert len(said.text) < 61_000


def test_more_references_than_can_be_used(desk: UserDesk) -> None:
    """A thousand are listed, page by page; further ones are told of."""
    desk.declare(*[{"id": f"r{number}", "content": "x"} for number in range(1_200)])
    said = desk.call("listReferences", limit=500, offset=500)
    assert (said["total"], len(said["references"])) == (1_000, 500)
    assert "next_offset" not in said
    assert "more than 1000" in said["problems"][0]


def test_the_user_has_them_as_commands(desk: UserDesk) -> None:
    """`listReferences` shows a line for each; the output of `selectReferences` joins the conversation."""
    commands = {command.name: (command, run) for command, run in desk.plugin.user_commands().items()}
    assert commands["listReferences"][1]("") == "There are no reference documents."
    desk.declare({"id": "a", "content": "words", "tags": ["t"]})
    assert commands["listReferences"][1]("") == "a  a  (t)"
    command, run = commands["selectReferences"]
    assert command.share_with_model
    assert "words" in run("a")


def test_names_and_texts_of_strangers_are_spelt_out(desk: UserDesk) -> None:
    """File names of any bytes, and words that cannot be seen, neither break the list nor act in a terminal."""
    folder = desk.workspace / ".jaato" / "references"
    folder.mkdir(parents=True)
    (folder / "ok.md").write_text("# a\u202eb\n\x1b[8mhidden\U000e0041\n")
    for name in (b"bad\xff\n\x1b.md", b"wrong\xff\n.json"):
        os.close(os.open(os.fsencode(folder) + b"/" + name, os.O_CREAT))
    said = desk.call("listReferences")
    text = json.dumps(said, ensure_ascii=False) + desk.call("selectReferences", ids=["ok", "bad"]).text
    text.encode()
    assert not any(char in text for char in "\x1b\u202e\U000e0041")
    assert said["problems"] == [
        ".jaato/references/wrong\\udcff .json is no JSON: Expecting value: line 1 column 1 (char 0)."
    ]


def test_declarations_without_end_are_looked_through_in_bounds(desk: UserDesk) -> None:
    """Megabytes of entries that are no sources cost neither memory nor the references beside them."""
    desk.put(".jaato/references.json", "[" + "0," * 500_000 + "0]")
    desk.put(".jaato/references/a.md", "# A")
    for number in range(40):
        desk.put(f".jaato/references/b{number}.json", "[" + "{}," * 300_000 + "{}]")
    found = load_declarations([SourceDirectory("workspace", desk.workspace, (".jaato",))])
    assert list(found.references) == ["a"]
    assert len(found.problems) == MAX_PROBLEMS
