"""Templates: kept, found, filled in apart, written inside the workspace only."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.data_workspace import Desk

import jaato.plugins.templates as module
from jaato.errors import ToolError
from jaato.plugins.files.plugin import FilesPlugin
from jaato.plugins.templates import TemplatesPlugin
from jaato.tools.catalog import Catalog
from jaato.tools.processes.sandbox_process import ResourceLimits
from jaato.tools.tool import tools_of

LIST = "# {{ title }}\n{% for item in items %}- {{ item | upper }}\n{% endfor %}"
DOCUMENT = """\
# Guide
```python title=a
class {{ name }}: ...
```
~~~
plain
~~~
````markdown
```
{% if deep %}yes{% endif %}
```
````
```never ends {{ x }}
"""


class UserDesk(Desk):
    """A workspace of a user who has a configuration directory."""

    def service(self, name: str) -> Any:
        """The settings, as far as a plugin asks for them, and the file tools."""
        if name == "settings":
            return SimpleNamespace(config_dir=self.workspace.parent / "config")
        if name == "catalog":
            files = Catalog()
            files.add(tools_of(FilesPlugin(self), "file_edit"))
            return files
        raise KeyError(name)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An empty workspace."""
    return UserDesk(TemplatesPlugin, tmp_path / "w")


def test_a_template_is_kept_read_and_filled_in(desk: Desk) -> None:
    """It is listed, says its variables, and becomes a text or a file, by its name without the ending too."""
    made = desk.call("create_template", name="list.md", content=LIST)
    assert made == {"name": "list.md", "path": ".jaato/templates/list.md", "variables": ["items", "title"]}
    assert (desk.workspace / made["path"]).read_text() == LIST
    assert desk.call("list_templates")["templates"] == [{"name": "list.md", "source": "workspace"}]
    assert desk.call("get_template", name="list")["content"] == LIST
    given = {"title": "T & <b>", "items": ["é", "{{ x }}"]}
    said = desk.call("renderTemplate", template="list", variables=given, output_path="new/dir/list.md")
    assert said["replaced"] is False
    assert (desk.workspace / "new/dir/list.md").read_text() == "# T & <b>\n- É\n- {{ X }}\n"
    assert desk.call("renderTemplate", template="{{ a }}!", variables={"a": 1}) == {"text": "1!"}


def test_names_that_are_taken_or_wrong_are_refused(desk: Desk) -> None:
    """Nothing is replaced unless asked; a damaged template is not kept; no name leads elsewhere."""
    desk.call("create_template", name="a", content="1")
    with pytest.raises(ToolError, match="overwrite"):
        desk.call("create_template", name="a", content="2")
    desk.call("create_template", name="a", content="2", overwrite=True)
    for name in ("extracted", "../a", "a/b", ".hidden", "extracted/../a", "a\0", "x" * 101, "/etc/a"):
        with pytest.raises(ToolError, match="no template name"):
            desk.call("create_template", name=name, content="x")
    with pytest.raises(ToolError, match="line 2"):
        desk.call("create_template", name="b", content="x\n{{ a")
    wrongs: list[dict[str, Any]] = [{}, {"name": "b"}, {"name": "b", "content": "", "document": "d"}]
    for wrong in wrongs:
        with pytest.raises(ToolError, match="document alone"):
            desk.call("create_template", **wrong)
    with pytest.raises(ToolError, match="There are: a"):
        desk.call("get_template", name="b")
    assert desk.call("delete_template", name="a") == {"deleted": "a"}
    with pytest.raises(ToolError, match="create_template"):
        desk.call("delete_template", name="a")


def test_the_users_templates_are_there_and_stay(desk: Desk) -> None:
    """Templates of the user's configuration directory work in each workspace, which may have its own instead."""
    own = desk.workspace.parent / "config" / "templates"
    own.mkdir(parents=True)
    (own / "letter.txt").write_text("Dear {{ who }}")
    assert desk.call("renderTemplate", template="letter.txt", variables={"who": "you"}) == {
        "text": "Dear you"
    }
    with pytest.raises(ToolError, match="user's own"):
        desk.call("delete_template", name="letter.txt")
    desk.call("create_template", name="letter.txt", content="Hi")
    assert desk.call("list_templates")["templates"] == [{"name": "letter.txt", "source": "workspace"}]
    assert (own / "letter.txt").read_text() == "Dear {{ who }}"


def test_templates_are_extracted_from_a_document(desk: Desk) -> None:
    """Fenced code blocks with places to fill in become templates, named after the document; others do not."""
    (desk.workspace / "MODULE guide.md").write_text(DOCUMENT)
    names = ["extracted/MODULE-guide-1.py", "extracted/MODULE-guide-2.md"]
    assert desk.call("create_template", document="MODULE guide.md") == {"templates": names}
    assert desk.call("listExtractedTemplates") == {"templates": names, "total": 2}
    said = desk.call("renderTemplate", template=names[0], variables={"name": "A"})
    assert said == {"text": "class A: ...\n"}
    assert desk.call("delete_template", name=names[0]) == {"deleted": names[0]}
    (desk.workspace / "empty.md").write_text("```\n" * 10_001)
    with pytest.raises(ToolError, match="no fenced code block"):
        desk.call("create_template", document="empty.md")
    with pytest.raises(ToolError, match="outside"):
        desk.call("create_template", document="../w2")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ missing }}", "variables are: missing"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ cycler.__init__.__globals__ }}", "unsafe"),
        ("{{ x | attr('__class__') }}", "unsafe"),
        ("{{ [].append(1) }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "loader"),
        ("{{ 1 / 0 }}", "division"),
        ("{{ 'a' * 10 ** 10 }}", "too large"),
        ("{% for a in range(99999) %}{{ 'x' * 100 }}{% endfor %}", "beyond 4 MB"),
        ("{{" + "(" * 50_000, "nested"),
        ("{% for a in [1] %}" * 25 + "{% endfor %}" * 25, "nested blocks.*Correct the template"),
    ],
)
def test_a_hostile_template_reaches_nothing(desk: Desk, template: str, problem: str) -> None:
    """It sees its variables alone, reads no file, and neither grows nor nests for ever."""
    with pytest.raises(ToolError, match=problem):
        desk.call("renderTemplate", template=template)


def test_a_template_without_end_is_stopped(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops in loops end with the time they are given."""
    monkeypatch.setattr(module, "BOUNDS", ResourceLimits(0.5, 512 << 20, 1 << 20, "Simplify the template."))
    loops = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
    with pytest.raises(ToolError, match="Simplify"):
        desk.call("renderTemplate", template=loops)


def test_nothing_is_written_outside_or_over_what_is_there(desk: Desk, tmp_path: Path) -> None:
    """The output stays inside, follows no link into a control path, and replaces a file only if asked."""
    w = desk.workspace
    (w / ".git" / "hooks").mkdir(parents=True)
    (w / "link").symlink_to(".git/hooks")
    (w / "out").symlink_to(tmp_path)
    (w / "there").write_text("old")
    (w / "there").chmod(0o600)
    os.mkfifo(w / "pipe")
    for path, problem in [
        ("../x", "outside"),
        ("out/x", "outside"),
        ("link/pre-commit", "protected"),
        ("link/new/x", "protected"),
        ("there", "overwrite"),
        (".git", "directory"),
        ("pipe", "pipe"),
        ("there/x", "file"),
    ]:
        with pytest.raises(ToolError, match=problem):
            desk.call("renderTemplate", template="{# #}x", output_path=path)
    assert os.listdir(w / ".git" / "hooks") == []
    assert (w / "there").read_text() == "old"
    said = desk.call("renderTemplate", template="{# #}x", output_path="there", overwrite=True)
    assert said == {"path": "there", "size_bytes": 1, "replaced": True}
    assert (w / "there").stat().st_mode & 0o777 == 0o600
    assert not [name for name in os.listdir(w) if name.endswith(".part")]


def test_a_folder_of_templates_that_is_a_link_is_refused(desk: Desk) -> None:
    """A workspace cannot have templates written among the hooks of git, nor files read from elsewhere."""
    hooks = desk.workspace / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (desk.workspace / ".jaato").mkdir()
    (desk.workspace / ".jaato" / "templates").symlink_to("../.git/hooks")
    with pytest.raises(ToolError, match="link"):
        desk.call("create_template", name="pre-commit", content="x")
    assert os.listdir(hooks) == []
    (desk.workspace / ".jaato" / "templates").unlink()
    (desk.workspace / ".jaato" / "templates").mkdir()
    (desk.workspace / ".jaato" / "templates" / "passwd").symlink_to("/etc/passwd")
    assert desk.call("list_templates")["total"] == 0
    with pytest.raises(ToolError, match="no template"):
        desk.call("get_template", name="passwd")


def test_a_folder_that_cannot_be_read_hides_no_template(desk: Desk) -> None:
    """What is wrong is said beside the templates of the other folders; unseen characters are spelt out."""
    desk.call("create_template", name="a.md", content="\u202ex")
    (desk.workspace / ".jaato" / "templates" / "extracted").write_text("no directory")
    said = desk.call("list_templates")
    assert {"name": "a.md", "source": "workspace"} in said["templates"]
    assert "extracted" in said["problems"][0]
    assert desk.call("get_template", name="a")["content"] == "\\u202ex"
    assert desk.call("delete_template", name="extracted") == {"deleted": "extracted"}
    assert "problems" not in desk.call("list_templates")


def test_a_template_keeps_its_lines(desk: Desk) -> None:
    """Form feeds and the line ends of other systems stay as they are."""
    (desk.workspace / "d.md").write_bytes(b"```\r\n{{ a }}\x0c\r\nb\r\n```\r\n")
    [name] = desk.call("create_template", document="d.md")["templates"]
    assert (desk.workspace / ".jaato" / "templates" / name).read_bytes() == b"{{ a }}\x0c\r\nb\r\n"


def test_what_is_written_survives_a_loss_of_power(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and then the directory that names it are on the disk when the call returns."""
    synced: list[bool] = []
    sync = os.fsync

    def spy(fd: int) -> None:
        sync(fd)
        synced.append(stat.S_ISDIR(os.fstat(fd).st_mode))

    monkeypatch.setattr(os, "fsync", spy)
    desk.call("create_template", name="a", content="x")
    assert synced == [False, True]
