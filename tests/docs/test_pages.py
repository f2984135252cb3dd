"""The documentation is true: its programs run, its links lead somewhere, the files it names are there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.docs.forks import Forks
from tests.docs.pages import ROOT, Page, blocks, pages

from jaato.plugins import BUILTIN
from jaato.settings import environment

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:src|docs|examples|tests|bench|compat)/[\w./-]+)`")
PLUGINS = re.compile(r"--plugins ([a-z_]+(?:,[a-z_]+)*)")
CODE = re.compile(r"^ *(`{3,}).*?^ *\1\s*$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    """A page as a test's id."""
    return str(path.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("path", [page for page in pages() if list(blocks(page.read_text()))], ids=name_of)
def test_the_blocks_of_a_page_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks
) -> None:
    """Every fenced block of a page runs, in order, and prints what the page says it prints."""
    page = Page(tmp_path, environment(), forks)
    monkeypatch.chdir(page.place)
    before = environment()
    found = list(blocks(path.read_text()))
    for block, following in zip(found, [*found[1:], None], strict=True):
        merged = following is not None and following.directives.get("output") == ""
        with monkeypatch.context() as patch:
            for name in before:
                if name.startswith(
                    ("JAATO_", "XDG_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "OLLAMA_")
                ):
                    patch.delenv(name)
            for name, value in page.environ(block).items():
                patch.setenv(name, value)
            try:
                page.run(block, merged=merged)
            except AssertionError as error:
                pytest.fail(f"{name_of(path)}, line {block.line}: {error}")


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    """A relative link leads to a file of the repository, its fragment to a heading of it; a file that is named exists."""
    text = CODE.sub("", path.read_text())
    for link in LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, fragment = link.partition("#")
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), f"{link} leads nowhere"
        if fragment:
            assert fragment in anchors(found.read_text()), f"{link}: no such heading"
    for named in NAMED.findall(text):
        assert (ROOT / named.rstrip("/")).exists(), f"`{named}` does not exist"


def test_the_plugins_that_commands_name_are_there() -> None:
    """Whoever copies a command with `--plugins` from a page or from a command's help is served."""
    told = [*pages(), *(ROOT / "src/jaato/cli").glob("*.py")]
    named = {
        name for page in told for names in PLUGINS.findall(page.read_text()) for name in names.split(",")
    }
    assert "git" in named
    assert named <= set(BUILTIN)


def anchors(text: str) -> set[str]:
    """The fragments a page's headings can be linked by."""
    headings = re.findall(r"^#+ +(.+)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_pages_are_reached() -> None:
    """Every page below docs/ is linked from another page."""
    linked: set[Path] = set()
    for page in pages():
        for link in LINK.findall(page.read_text()):
            if "://" not in link:
                linked.add((page.parent / link.partition("#")[0]).resolve())
    lost = [
        name_of(page)
        for page in pages()
        if page.is_relative_to(ROOT / "docs") and page.resolve() not in linked
    ]
    assert not lost


def test_the_pages_speak_of_the_product_alone() -> None:
    """No page says what is unfinished, and none is left unknown to git."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    known = set(listed.stdout.split())
    for page in pages():
        text = page.read_text()
        assert name_of(page) in known
        assert not re.search(r"\bTB" + r"D\b|MEAS" + r"URED$|coming so" + r"on", text, re.MULTILINE), (
            f"{name_of(page)} is unfinished"
        )
