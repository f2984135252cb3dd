"""Language servers that misbehave: each gives a clear error in bounded time, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.plugin_workspace import Bench, gone, python
from tests.shell.test_edges import carrying

from jaato.errors import ConfigError, ToolError
from jaato.plugins.lsp import client
from jaato.plugins.lsp.plugin import LspPlugin

ODD = Path(__file__).with_name("misbehaving_server.py")


class Odd:
    """A workspace whose files are served by the odd server."""

    def __init__(self, path: Path, way: str, **config: Any) -> None:
        self.log = path / "log.jsonl"
        command = f"odd:.odd={sys.executable} {ODD} '{way}' {self.log}"
        self.bench = Bench(
            LspPlugin, path / "work", {"language_servers": [command], "sandbox": "full", **config}
        )
        (self.bench.workspace / "a.odd").write_text("word here\n")

    def ask(self, name: str = "lsp_goto_definition", **more: Any) -> Any:
        return self.bench.ask(name, path="a.odd", symbol="word", **more)

    def heard(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def __enter__(self) -> Odd:
        return self

    def __exit__(self, *_: object) -> None:
        self.bench.close()
        assert not carrying(str(self.log))


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("dies at start", "exit code 3.*no licence found"),
        ("prints", "no message but"),
        ("dies", "exit code 7.*boom"),
        ("huge", "1,000,000,000 bytes, over the bound"),
        ("fails", "cannot do"),
    ],
)
def test_a_server_that_fails_is_explained(tmp_path: Path, way: str, said: str) -> None:
    """How it ended or what it answered, with the end of what it complained."""
    with Odd(tmp_path, way) as odd, pytest.raises(ToolError, match=f"(?s){said}"):
        odd.ask()


@pytest.mark.parametrize("way", ["silent at start", "hangs"])
def test_a_server_that_hangs_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """It is given up at its deadline; one that hung at its start is ended."""
    monkeypatch.setattr(client, "START_S", 1.0)
    monkeypatch.setattr(client.LanguageServer.request, "__defaults__", (1.0,))
    with Odd(tmp_path, way) as odd, pytest.raises(ToolError, match="within 1 s"):
        odd.ask()


def test_one_that_fails_again_and_again_is_left_alone_for_a_while(tmp_path: Path) -> None:
    """After two failures in a row no other is started for some seconds; the error says for how long and why."""
    with Odd(tmp_path, "dies at start") as odd:
        for _ in range(2):
            with pytest.raises(ToolError, match="exit code 3"):
                odd.ask()
        begun = time.monotonic()
        with pytest.raises(ToolError, match=r"failed 2 times .*no licence"):
            odd.ask()
        assert time.monotonic() - begun < 40  # a start has 45


def test_answers_to_nothing_are_not_heard(tmp_path: Path) -> None:
    """Only the answer with the right number counts, and only the first of them."""
    with Odd(tmp_path, "wrong ids") as odd:
        assert odd.ask() == {"total": 0, "files": 0, "locations": []}
        assert odd.ask()["total"] == 0


def test_a_flood_costs_neither_memory_nor_the_loop(tmp_path: Path) -> None:
    """A second of messages and complaints at full speed: the answer comes, the loop is free, little is kept."""

    async def main() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await anyio.sleep(0.01)
                ticks += 1

        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            await odd.bench.go("lsp_goto_definition", path="a.odd", symbol="word")
            group.cancel_scope.cancel()
        return ticks

    with Odd(tmp_path, "floods") as odd:
        assert anyio.run(main) > 25
        (project,) = odd.bench.plugin._pool.running()
        assert sum(len(uri) for uri in project.server.diagnosed) < 6_000_000


def test_a_server_may_ask_but_change_nothing(tmp_path: Path) -> None:
    """Its questions are answered: settings that are not there, edits that are not made, methods nobody knows."""
    with Odd(tmp_path, "asks") as odd:
        odd.ask()
        odd.ask()
        answers = {m["id"]: m for m in odd.heard() if "method" not in m}
        assert answers["s0"]["result"] == [None, None, None]
        assert answers["s1"]["result"]["applied"] is False
        assert answers["s2"]["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("outside", "outside the directories"),
        ("control", "decides what runs"),
        ("creates", "wants to create a file"),
        ("overlaps", "overlap"),
        ("nonsense", "cannot be understood|wrong edit"),
        ("nothing", "Nothing can be renamed"),
    ],
)
def test_edits_that_reach_too_far_are_refused(tmp_path: Path, way: str, said: str) -> None:
    """Outside the roots, in what decides what runs, files made, edits that overlap or make no sense: nothing changes."""
    with Odd(tmp_path, way) as odd:
        with pytest.raises(ToolError, match=said):
            odd.ask("lsp_rename_symbol", new_name="other")
        assert (odd.bench.workspace / "a.odd").read_text() == "word here\n"
        assert not (odd.bench.workspace / ".git").exists()


def test_a_flood_of_places_comes_in_pages(tmp_path: Path) -> None:
    """Thirty thousand places are a bounded number, and a page of them is short."""
    with Odd(tmp_path, "many") as odd:
        shown = odd.ask("lsp_find_references", limit=10, offset=5)
        assert (shown["total"], len(shown["locations"]), shown["next_offset"]) == (20_000, 10, 15)


def test_a_cancelled_question_is_taken_back(tmp_path: Path) -> None:
    """The server is told that nobody waits any more, and goes on."""
    with Odd(tmp_path, "deaf") as odd:

        async def ask() -> None:
            await odd.bench.go("lsp_goto_definition", path="a.odd", symbol="word")

        async def until_heard(method: str) -> None:
            with anyio.fail_after(60):
                while not odd.log.exists() or method not in odd.log.read_text():
                    await anyio.sleep(0.05)

        async def main() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await until_heard("textDocument/definition")
                group.cancel_scope.cancel()
            await until_heard("$/cancelRequest")

        anyio.run(main)
        (project,) = odd.bench.plugin._pool.running()
        assert project.server.in_use == 0


def test_an_idle_server_ends_and_starts_again(tmp_path: Path) -> None:
    """After its idle time there is no process; the next question has one."""
    with Odd(tmp_path, "nothing", idle_s=0.4) as odd:
        odd.ask()
        assert gone(lambda: carrying(str(odd.log)))
        assert odd.ask()["total"] == 0


def test_a_server_is_shared_and_its_files_are_told_anew(tmp_path: Path) -> None:
    """Two calls have one server; a file that changed on disk is sent again, with the next version."""
    with Odd(tmp_path, "nothing") as odd:
        odd.ask()
        (odd.bench.workspace / "a.odd").write_text("word there\n")
        odd.ask()
        assert len(carrying(str(odd.log))) >= 1
        heard = odd.heard()
        assert [m["method"] for m in heard].count("initialize") == 1
        (change,) = [m for m in heard if m.get("method") == "textDocument/didChange"]
        assert change["params"]["contentChanges"] == [{"text": "word there\n"}]
        assert change["params"]["textDocument"]["version"] == 2


PROGRAM = """
import sys
from pathlib import Path
from tests.lsp.test_misbehaving_servers import Odd

odd = Odd(Path(sys.argv[1]), "nothing")
odd.ask()
print("up", flush=True)
sys.stdin.readline()
"""


def test_a_killed_jaato_takes_its_servers_with_it(tmp_path: Path) -> None:
    """SIGKILL for jaato: the server is gone within moments."""
    with python(PROGRAM, str(tmp_path)) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
        assert carrying(str(tmp_path / "log.jsonl"))
        program.send_signal(signal.SIGKILL)
    assert gone(lambda: carrying(str(tmp_path / "log.jsonl")))


@pytest.mark.parametrize("entry", ["", "=", "zig", "zig:.zig", "zig:zig=zls", "python='", ":.x=y"])
def test_a_setting_that_makes_no_sense_is_refused(tmp_path: Path, entry: str) -> None:
    """The entry is named, with how one is written."""
    with pytest.raises(ConfigError, match="language_servers"):
        Bench(LspPlugin, tmp_path, {"language_servers": [entry]})


def test_no_program_of_the_workspace_is_started(tmp_path: Path) -> None:
    """One on the PATH inside the workspace, by name or by a link from outside, is passed over."""
    work, outside = tmp_path / "work", tmp_path / "bin"
    (work / "bin").mkdir(parents=True)
    outside.mkdir()
    trap = work / "bin" / "gopls"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/TRAPPED\n")
    trap.chmod(0o755)
    (outside / "gopls").symlink_to(trap)
    bench = Bench(LspPlugin, work, environ={"PATH": f"{work}/bin:bin:{outside}:{os.defpath}"})
    (work / "a.go").write_text("package a\n")
    try:
        with pytest.raises(ToolError, match="not installed"):
            bench.ask("lsp_hover", path="a.go", symbol="a")
        assert not (tmp_path / "TRAPPED").exists()
    finally:
        bench.close()


@pytest.mark.parametrize(
    ("name", "why"), [("a.rs", "cargo"), ("a.ts", "node_modules"), ("a.zig", "No language server")]
)
def test_servers_that_run_a_workspace_wait_for_the_user_s_word(tmp_path: Path, name: str, why: str) -> None:
    """They are not started by themselves; the error says why, and how the user allows it."""
    bench = Bench(LspPlugin, tmp_path)
    (tmp_path / name).write_text("a\n")
    try:
        with pytest.raises(ToolError, match=f"(?s){why}.*language_servers"):
            bench.ask("lsp_hover", path=name, symbol="a")
    finally:
        bench.close()
