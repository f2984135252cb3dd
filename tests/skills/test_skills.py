"""Agent Skills: found like tools, read when loaded, and never more than text."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.data_workspace import Desk

from jaato.errors import ToolError
from jaato.plugins.skills import (
    DocumentsPlugin,
    SkillsPlugin,
    list_skill_files,
    parse_front_matter,
    read_text,
)
from jaato.tools.call import Call, Output
from jaato.tools.cancel import CancelToken
from jaato.tools.catalog import Catalog, wire_name
from jaato.tools.filesystem.private_directory import PrivateDirectory
from jaato.tools.invisible_text import find_invisible

SKILL = (
    "---\nname: pdf\ndescription: Fill in and merge PDF forms. Use it for forms.\n---\n# PDF\n\nDo it so.\n"
)


class SkillDesk(Desk):
    """A workspace and a user's configuration directory."""

    def service(self, name: str) -> Any:
        """The settings, as far as a plugin asks for them."""
        if name == "settings":
            home = self.workspace.parent
            return SimpleNamespace(config_dir=home / "config", cache_dir=home / "cache")
        raise KeyError(name)


def put(path: Path, content: str | bytes) -> Path:
    """A file, with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def skill(tmp_path: Path, content: str | bytes = SKILL, folder: str = "pdf", *, user: bool = False) -> Path:
    """A skill in the workspace, or of the user."""
    place = tmp_path / ("config/skills" if user else "w/.jaato/skills")
    return put(place / folder / "SKILL.md", content)


def plugin(tmp_path: Path, kind: type[DocumentsPlugin] = SkillsPlugin) -> DocumentsPlugin:
    """The plugin on the workspace as it is now."""
    made = SkillDesk(kind, tmp_path / "w").plugin
    assert isinstance(made, DocumentsPlugin)
    return made


def use(made: DocumentsPlugin, name: str, **arguments: Any) -> Output:
    """Call one of the tools found."""
    tool = next(tool for tool in made.offered() if tool.name == name)
    assert not tool.issues(arguments)
    answer = tool.run(arguments, Call("c1", name, arguments, token=CancelToken()))
    assert isinstance(answer, Output)
    return answer


def test_a_skill_is_a_tool_that_reads(tmp_path: Path) -> None:
    """It has the category `skill`, the front matter's description, and access to read; there are none without files."""
    assert plugin(tmp_path).offered() == []
    skill(tmp_path)
    (tool,) = plugin(tmp_path).offered()
    assert (tool.name, tool.spec.category, tool.spec.access) == ("skill__pdf", "skill", "read")
    assert tool.spec.description == "Fill in and merge PDF forms. Use it for forms."
    assert tool.spec.discoverability == "discoverable"


def test_its_call_gives_the_instructions_and_the_files(tmp_path: Path) -> None:
    """The body without its front matter, what lies beside it, and whose words they are; a file is read by name."""
    path = skill(tmp_path)
    put(path.parent / "scripts/fill.py", "print('filled')\n")
    put(path.parent / ".secret", "no")
    os.symlink("/etc/passwd", path.parent / "stolen")
    made = plugin(tmp_path)
    answer = use(made, "skill__pdf")
    assert "Do it so." in answer.text
    assert "description:" not in answer.text
    assert "written in this workspace" in answer.text
    assert answer.structured["files"] == ["scripts/fill.py"]
    assert use(made, "skill__pdf", file="scripts/fill.py").text == "print('filled')\n"
    for name in ("stolen", ".secret", "../../../../secret", "/etc/passwd", "scripts", "SKILL.md/.."):
        with pytest.raises(ToolError, match="no file"):
            use(made, "skill__pdf", file=name)


def test_the_users_skill_comes_first(tmp_path: Path) -> None:
    """A workspace cannot replace a skill of the user; the user's own words carry no warning."""
    skill(tmp_path, user=True)
    skill(tmp_path, SKILL.replace("Do it so.", "Do otherwise."))
    made = plugin(tmp_path)
    answer = use(made, "skill__pdf")
    assert "Do it so." in answer.text
    assert "workspace" not in answer.text
    assert "called pdf already" in made.listing("")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff\xfe", "UTF-8"), ("no front matter", "no description"), ("---\nname: a b\ndescription: x\n---\n", "no name"),
     ("---\nname: ../x\ndescription: x\n---\n", "no name"), ("---\nname: x\ndescription:\n---\n", "no description"),
     (SKILL + "\U000e0041\U000e0042", "U+E0041"), (SKILL.replace("forms", "forms\u202e"), "U+202E"),
     (SKILL + "\u200b", "U+200B"), (SKILL + "\U000e0141\ufe03", "U+FE03"), (SKILL + "\u3164\u2800", "U+2800"),
     (SKILL + "\u2028x", "U+2028"), (SKILL + "\x7f", "U+007F"), (SKILL + "Latin\u200dletters", "U+200D"),
     (SKILL + "\x1b[2J", "U+001B"), ("x" * 300_000, "more"), ("", "no description")],
)  # fmt: skip
def test_a_bad_skill_is_left_out_and_named(tmp_path: Path, content: str | bytes, words: str) -> None:
    """Nothing that cannot be read as a person would read it becomes a tool, and the others are there all the same."""
    skill(tmp_path, content, "bad")
    skill(tmp_path)
    made = plugin(tmp_path)
    assert [tool.name for tool in made.offered()] == ["skill__pdf"]
    assert words in made.listing("")


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A skill that is a link, or whose file is one, is none."""
    outside = put(tmp_path / "outside/SKILL.md", SKILL)
    place = tmp_path / "w/.jaato/skills"
    (place / "linked").mkdir(parents=True)
    os.symlink(outside, place / "linked/SKILL.md")
    os.symlink(outside.parent, place / "folder")
    made = plugin(tmp_path)
    assert made.offered() == []
    assert made.listing("").count(" link") == 2


def test_a_list_is_one_line_each_whatever_files_are_called(tmp_path: Path) -> None:
    """Names and descriptions from the disk cannot write a line of their own, or drive the terminal."""
    skill(tmp_path, b"\xff", "evil\x1b[2J\nLeft out: nothing")
    skill(tmp_path, SKILL.replace("description: ", "description: |\n  pdf  (user)  One.\n  "), "two")
    lines = plugin(tmp_path).listing("").split("\n")
    assert len(lines) == 2
    assert lines[0].startswith("pdf  (workspace)  pdf (user) One. Fill in")
    assert "evil\\x1b[2J\\nLeft out" in lines[1]


def test_no_name_takes_the_place_of_another(tmp_path: Path) -> None:
    """A workspace cannot choose a name that is another's on the wire: the second is left out, the first stays."""
    taken = wire_name("skill__a.b").removeprefix("skill__")
    skill(tmp_path, SKILL.replace("pdf", "a.b", 1), "one", user=True)
    skill(tmp_path, SKILL.replace("pdf", taken, 1), "two")
    made = plugin(tmp_path)
    known = Catalog()
    known.add(made.offered())
    assert [tool.original_name for tool in known] == ["skill__a.b"]
    assert f"{taken} on the wire" in made.listing("")


def test_a_skill_of_countless_folders_is_looked_through_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many folders and files there are, only so many are looked at."""
    path = skill(tmp_path)
    for at in range(60):
        (path.parent / f"empty{at:02}/deeper").mkdir(parents=True)
    put(path.parent / "zz.txt", "last")
    (item,) = plugin(tmp_path)._found.items.values()
    assert list_skill_files(item) == ["zz.txt"]
    monkeypatch.setattr("jaato.plugins.skills.MAX_LOOKED_AT", 20)
    assert len(list_skill_files(item)) <= 1
    opened: list[object] = []
    scandir = os.scandir

    def noted(path: Path) -> Any:
        opened.append(path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", noted)
    list_skill_files(item)
    assert len(opened) <= 20


def test_what_became_bad_is_refused_when_it_is_called(tmp_path: Path) -> None:
    """The text is looked at again when it is shown: what was changed since, or is gone, does not pass."""
    path = skill(tmp_path)
    made = plugin(tmp_path)
    path.write_text(SKILL + "\u2066")
    with pytest.raises(ToolError, match="U\\+2066"):
        use(made, "skill__pdf")
    path.unlink()
    with pytest.raises(ToolError, match="gone"):
        use(made, "skill__pdf")


def test_only_changed_files_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file says is kept with its state, privately; a damaged note of it is ignored."""
    paths = [skill(tmp_path, SKILL.replace("pdf", f"s{n}", 1), f"s{n}") for n in range(4)]
    plugin(tmp_path)
    cache = tmp_path / "cache/skills.json"
    assert cache.stat().st_mode & 0o777 == 0o600
    read: list[str] = []

    def noted(folder: PrivateDirectory, name: str) -> str:
        read.append(folder.label)
        return read_text(folder, name)

    monkeypatch.setattr("jaato.plugins.skills.read_text", noted)
    assert len(plugin(tmp_path).offered()) == 4
    assert read == []
    paths[2].write_text(SKILL.replace("pdf", "new-name", 1))
    assert "skill__new-name" in [tool.name for tool in plugin(tmp_path).offered()]
    assert read == [".jaato/skills/s2"]
    for damage in (b"", b"{", b'{"a": 3}', b"\xff"):
        cache.write_bytes(damage)
        assert len(plugin(tmp_path).offered()) == 4


@pytest.mark.parametrize(
    ("text", "head"),
    [("---\na: 1\nb: 'x: y'\n---\nz", {"a": "1", "b": "x: y"}), ("---\nd: >\n  one\n  two\n---\n", {"d": "one two"}),
     ("---\nd: |\n  one\n  two\n---\n", {"d": "one\ntwo"}), ("---\nd: one\n  two\nm:\n  x: 3\n---\n", {"d": "one two", "m": "x: 3"}),
     ("\ufeff---\r\nd: x\r\n---\r\n", {"d": "x"}), ("---\nd: never closed\n", {}), ("", {}), ("---", {}), ("text", {})],
)  # fmt: skip
def test_front_matter(text: str, head: dict[str, str]) -> None:
    """Plain, quoted, folded and kept values are read; a file without front matter is all body."""
    assert parse_front_matter(text).head == head


def test_words_of_every_script_are_visible() -> None:
    """Letters, emoji with joiners and ordinary white space hide nothing."""
    assert find_invisible("नमस्\u200dते 👩\u200d🚀 日本\n\tx \xa0") == []
    assert find_invisible("a\u00ad") == ["U+00AD"]
