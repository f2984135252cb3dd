"""The reference and the list of dependencies say what the code says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from docs.generate import generators
from docs.generate_tools import tools
from tests.docs.pages import ROOT

import jaato
from jaato.errors import JaatoError
from jaato.protocol.events import Event
from jaato.settings.fields import FIELDS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GENERATORS = generators()


@pytest.mark.parametrize("path", GENERATORS, ids=lambda path: str(Path(path).name))
def test_the_reference_is_that_of_the_code(path: Path) -> None:
    """A committed page of the reference is, to the byte, what the code makes; `make docs` brings it up to date."""
    assert path.read_text(encoding="utf-8") == GENERATORS[path]()


def test_the_reference_leaves_nothing_out() -> None:
    """Every tool and alias, event, setting, error code and public name has its place in the reference."""

    def page(name: str) -> str:
        return (ROOT / "docs" / "reference" / name).read_text()

    for tool in tools():
        assert f"### {tool.name}\n" in page("tools.md")
        for alias in tool.aliases:
            assert f"`{alias}`" in page("tools.md")
    for kind in get_args(Event):
        assert f"## {kind.__struct_config__.tag}\n" in page("events.md")
    for name in FIELDS:
        assert f"`{name}` (`JAATO_{name.upper()}`)" in page("settings.md")
    for below in JaatoError.__subclasses__():
        if below.__module__ == "jaato.errors":
            assert f"`{below.code}`" in page("errors.md")
    for name in jaato.__all__:
        assert name.startswith("__") or re.search(
            rf"^(### {name}$|\* `{name}`)", page("api.md"), re.MULTILINE
        ), name


def test_the_generator_runs_as_make_docs_runs_it() -> None:
    """`python -m docs.generate --check` succeeds where nothing is out of date."""
    done = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "-m docs.generate" in (ROOT / "Makefile").read_text()


def requirements() -> dict[str, str]:
    """Every requirement of the project by its name."""
    project = PROJECT["project"]
    lists = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *PROJECT["dependency-groups"].values(),
    ]
    return {re.split(r"[<>=!~;\[ ]", text)[0]: text for entries in lists for text in entries}


def test_every_dependency_has_its_reason() -> None:
    """The page of dependencies has one line with a reason for each package of pyproject.toml and of the web client, and
    for no other."""
    text = (ROOT / "docs" / "design" / "dependencies.md").read_text()
    before, _, rest = text.partition("## The page\n")
    page, _, after = rest.partition("\n## ")
    rows = re.findall(r"^\| `([\w.-]+)` \|(?: `\w+` \|)? (.+) \|$", before + after, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(requirements())
    assert all(len(reason) > 10 for _, reason in rows)
    cells = re.findall(r"^\| (`[^|]+`) \| .{10,} \|$", page, re.MULTILINE)
    manifest = json.loads((ROOT / "clients/web/package.json").read_text())
    named = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    assert named == {*manifest["dependencies"], *manifest["devDependencies"]}


@pytest.mark.parametrize("name", requirements())
def test_a_dependency_has_a_floor_and_nothing_else(name: str) -> None:
    """A requirement names the oldest version that will do, and forbids no newer one."""
    assert re.fullmatch(r"[\w.-]+>=[\d.]+(; sys_platform == .*)?", requirements()[name])
