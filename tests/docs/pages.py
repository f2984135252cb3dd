"""Markdown pages as programs: their fenced blocks, the directives above them, and what running them prints.

A directive is an HTML comment on a line above a block. `model:` gives the replies of the scripted model that answers in
that block, as JSON; `file:` writes the block to a file; `output` says that the block is what the one before printed
(`stdout` leaves out stderr); `exit:` is the exit code of a shell block; `not run:` gives the reason why it is not. In a
`console` block the commands after `$` are not run, but `jaato` must accept their arguments.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import tomllib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.forks import Forks

from jaato.cli import add_default_command
from jaato.cli.arguments.parser import make_parser

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w+-]*)\s*$")
DIRECTIVE = re.compile(
    r"^\s*<!--\s*(?P<name>model|file|output|exit|not run):?\s*(?P<value>.*?)\s*-->\s*$", re.DOTALL
)
ASSIGNMENT = re.compile(r"\w+=")
FILE_LINE = re.compile(r"^# (?P<path>[\w./-]+\.(?:py|sh))$")
LANGUAGES = {"python", "sh", "text", "json", "toml", "csv", "markdown", "makefile", "console", "ts"}
CHANGING = (
    (re.compile(r"\b[a-z]{1,2}_?[0-9][0-9A-HJKMNP-TV-Zabcdefghjkmnp-tv-z]{25}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b(?:\d+\.\d+ s|\d+:\d\d min)\b"), "SECONDS"),
    (re.compile(r"^scripted .*\n", re.MULTILINE), ""),
    (re.compile(r" {2,}"), "  "),
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, where it begins, and its directives."""

    language: str
    text: str
    line: int
    directives: dict[str, str] = field(default_factory=dict)


def pages() -> list[Path]:
    """Every page whose blocks run."""
    return [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "SECURITY.md",
        *sorted(ROOT.glob("docs/**/*.md")),
        *sorted(ROOT.glob("examples/*.md")),
    ]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page. Raises ValueError for a fence that never ends."""
    lines = text.split("\n")
    waiting: dict[str, str] = {}
    at = 0
    while at < len(lines):
        if lines[at].startswith("<!--"):
            end = next(i for i in range(at, len(lines)) if "-->" in lines[i])
            if found := DIRECTIVE.match("\n".join(lines[at : end + 1])):
                waiting[found["name"]] = found["value"]
            at = end + 1
            continue
        fence = FENCE.match(lines[at])
        if fence is None:
            if lines[at].strip():
                waiting = {}
            at += 1
            continue
        close = fence["indent"] + fence["ticks"]
        ends = [i for i in range(at + 1, len(lines)) if lines[i].rstrip() == close]
        if not ends:
            raise ValueError(f"line {at + 1}: the block has no end")
        body = "".join(line.removeprefix(fence["indent"]) + "\n" for line in lines[at + 1 : ends[0]])
        yield Block(fence["language"], body, at + 1, waiting)
        waiting, at = {}, ends[0] + 1


def settled(text: str) -> str:
    """What was printed, without what differs from run to run."""
    for pattern, word in CHANGING:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def accepted(line: str) -> None:
    """Hold every `jaato` command of a shell line against the command line's own parser."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    command: list[str] = []
    for word in [*words, "|"]:
        if word not in {"|", "&&", "||", ";", ">", "<", ">>"}:
            command += [] if not command and ASSIGNMENT.match(word) else [word]
            continue
        if command[:1] == ["jaato"]:
            try:
                given = add_default_command(command[1:])
                make_parser(*given[:1]).parse_args(given)
            except SystemExit as error:
                if error.code != 0:
                    raise AssertionError(f"jaato does not take: {line}") from None
        command = []


class Page:
    """Runs the blocks of one page in order, all in one directory with a home of its own."""

    def __init__(self, place: Path, environ: dict[str, str], forks: Forks) -> None:
        self.place = place / "project"
        self.place.mkdir()
        (place / "home").mkdir()
        programs = place / "bin"
        programs.mkdir()
        self._script = place / "script.json"
        self._keep: dict[str, str] = {name: environ[name] for name in ("LANG", "LC_ALL") if name in environ}
        self._path = f"{programs}:{environ.get('PATH', os.defpath)}"
        self._home = place / "home"
        forks.program(programs / "jaato", "-m", "jaato")
        forks.program(programs / "python")
        self._printed = ""

    def environ(self, block: Block) -> dict[str, str]:
        """The environment a block runs in: nothing of the user's, and the scripted model if the page gives one."""
        made: dict[str, str] = {
            **self._keep,
            "PATH": self._path,
            "HOME": str(self._home),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'compat/src'}:{self.place}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "EXAMPLES": str(ROOT / "examples"),
        }
        if "model" in block.directives:
            self._script.write_text(json.dumps(json.loads(block.directives["model"])))
            made |= {"JAATO_PROVIDER": "scripted", "JAATO_MODEL": str(self._script)}
        return made

    def run(self, block: Block, *, merged: bool = False) -> None:
        """Run one block, stdout and stderr as one stream if `merged`; raises AssertionError when it does not do what
        the page says."""
        if block.language not in LANGUAGES:
            raise AssertionError(f"the language {block.language!r}; known are {', '.join(sorted(LANGUAGES))}")
        if "not run" in block.directives:
            assert block.directives["not run"], "say why it is not run"
            return
        if "file" in block.directives:
            target = self.place / block.directives["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        match block.language:
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "python":
                self._python(block, merged)
            case "sh":
                self._shell(block, merged)
            case "console":
                for line in block.text.splitlines():
                    if line.startswith("$ "):
                        accepted(line[2:])
            case "text" if "output" in block.directives:
                printed = self._printed.replace(str(self._home), "~").replace(str(self.place), ".")
                assert settled(printed) == settled(block.text), f"it printed:\n{printed}"

    def _python(self, block: Block, merged: bool) -> None:
        first = block.text.split("\n", 1)[0]
        if named := FILE_LINE.match(first):
            target = self.place / named["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        out = io.StringIO()
        err = out if merged else io.StringIO()
        code = compile(block.text, f"line {block.line}", "exec")
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                exec(code, {"__name__": "__main__"})
        except Exception:
            raise AssertionError(traceback.format_exc()) from None
        self._printed = out.getvalue()

    def _shell(self, block: Block, merged: bool) -> None:
        assert "pip install" not in block.text, "a page's test reaches no network"
        with subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", block.text],
            cwd=self.place,
            env=self.environ(block),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as shell:
            try:
                self._printed, said = shell.communicate(timeout=120)
            finally:  # what a page has begun and not ended ends with it
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
        wanted = int(block.directives.get("exit", "0"))
        assert shell.returncode == wanted, f"exit code {shell.returncode}:\n{self._printed}\n{said}"
