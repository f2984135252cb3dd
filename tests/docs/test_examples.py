"""The examples run as they are, with a model that plays the replies beside them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
import pytest
from tests.docs.forks import Forks
from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"
WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
PRINTED = {
    "ten_lines": "Tea and cake cost 7.70 euros together.\n",
    "own_tool": "denied: writeNewFile\nGreen tea (3) and honey (1) are short. I was not allowed to note it.\n",
    "stream": "-> readFile {'path': 'todo.txt'}\n<- ok\nRepair the bell at the door.\nstop; replies: 2, calls: 1\n",
    "structured": "normal  call the tea supplier\nurgent  repair the bell\n",
    "plugin_notes": "I noted it.\n- the tea supplier closes at noon on Fridays\n",
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_should(name: str, tmp_path: Path, forks: Forks) -> None:
    """Each program of examples/ runs to its end with the replies written for it, and leaves the shop as it was."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    before = {path: path.read_bytes() for path in (tmp_path / "examples").rglob("*") if path.is_file()}
    (tmp_path / "here").mkdir()
    done = subprocess.run(
        [forks.program(tmp_path / "python"), "-W", "error", str(tmp_path / "examples" / f"{name}.py")],
        cwd=tmp_path / "here",
        env={
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "JAATO_PROVIDER": "scripted",
            "JAATO_MODEL": str(EXAMPLES / "replies" / f"{name}.json"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED[name], "")
    after = {path: path.read_bytes() for path in (tmp_path / "examples").rglob("*") if path.is_file()}
    assert after == before


def test_every_example_is_run_and_listed() -> None:
    """Each program has replies, a test and a line in the list of examples; some have a test of their own."""
    programs = {path.stem for path in EXAMPLES.glob("*.py")} - {"demo"}
    assert (
        programs
        == {*PRINTED, "client", "openai_sdk", "registries", "websocket"}
        == {path.stem for path in (EXAMPLES / "replies").glob("*.json")}
    )
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"[{name}.py]({name}.py)" in listed for name in programs)


def test_ten_lines_are_ten_lines() -> None:
    """The shortest program has at most ten lines of code."""
    lines = (EXAMPLES / "ten_lines.py").read_text().splitlines()[1:]
    assert sum(bool(line.strip()) for line in lines) <= 10


def test_the_demo_leaves_its_workspace_behind_nowhere(tmp_path: Path, forks: Forks) -> None:
    """Where the model cannot be had, the demo says so, fails, and its copy of the shop is gone."""
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [forks.program(tmp_path / "python", within=True), str(EXAMPLES / "demo.py")],
        env={
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path / "tmp"),
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "JAATO_LOCAL_MODEL": str(tmp_path / "missing.gguf"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "JAATO_LOCAL_MODEL" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "tmp").iterdir())


def test_the_client_of_the_server(tmp_path: Path, forks: Forks) -> None:
    """The twenty lines of the guide are the program in examples/, and it runs against a server of the user's own."""
    program = (EXAMPLES / "client.py").read_text()
    python = forks.program(tmp_path / "python")
    assert program in (ROOT / "docs/guides/client.md").read_text()
    with tempfile.TemporaryDirectory(prefix="jaato-") as runtime:
        env = {
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "XDG_RUNTIME_DIR": runtime,
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "JAATO_PROVIDER": "scripted",
            "JAATO_MODEL": str(EXAMPLES / "replies" / "client.json"),
        }

        def run(*args: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [python, *args], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120,
                check=False,
            )  # fmt: skip

        alone = run(str(EXAMPLES / "client.py"))
        assert "`jaato serve --daemon` starts one" in alone.stderr
        assert run("-m", "jaato", "serve", "--daemon").returncode == 0
        try:
            done = run("-W", "error", str(EXAMPLES / "client.py"))
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.splitlines()[0] == "I was not allowed to write it."
            assert done.stdout.splitlines()[1].startswith("1 turn, ")
            assert not (tmp_path / "tea.md").exists()
        finally:
            run("-m", "jaato", "serve", "--stop")


def test_the_client_in_ten_lines(tmp_path: Path, forks: Forks) -> None:
    """The ten lines of the guide are the program in examples/, and work over the network with the server's own token; at
    another path, and without a token, the server says where the WebSocket is."""
    program = (EXAMPLES / "websocket.py").read_text()
    python = forks.program(tmp_path / "python")
    assert program in (ROOT / "docs/guides/client.md").read_text()
    with tempfile.TemporaryDirectory(prefix="jaato-") as runtime:
        env = {
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "XDG_RUNTIME_DIR": runtime,
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "JAATO_PROVIDER": "scripted",
            "JAATO_MODEL": str(EXAMPLES / "replies" / "websocket.json"),
        }

        def run(*args: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [python, *args], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120,
                check=False,
            )  # fmt: skip

        started = run("-m", "jaato", "serve", "--daemon", "--web-socket", ":0")
        try:
            found = re.search(r"ws://([\d.]+:\d+)", started.stderr)
            assert found, started.stderr
            token = tmp_path / ".local/state/jaato/server-token"
            done = run("-W", "error", str(EXAMPLES / "websocket.py"), found[0], str(token))
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout == "A list of the stock, and one of what is to do."
            lost = run(str(EXAMPLES / "websocket.py"), f"{found[0]}/elsewhere", str(token))
            assert "404" in lost.stderr
            headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
            for path, given, status in (
                ("/", {}, 401),
                ("/", headers, 404),
                ("/v1/connect", headers, 426),
                ("/none", headers, 404),
            ):
                for upgrade in ({}, WEBSOCKET):
                    if (upgrade and path == "/v1/connect") or (not upgrade and path == "/"):
                        continue  # a client; the page
                    answered = httpx2.get(f"http://{found[1]}{path}", headers=given | upgrade)
                    assert answered.status_code == status
                    assert "WebSocket at /v1/connect" in answered.json()["error"]["message"]
        finally:
            run("-m", "jaato", "serve", "--stop")


def test_tools_of_two_registries_and_an_mcp_server_served_on(tmp_path: Path, forks: Forks) -> None:
    """An agent finds tools of two registries and an MCP server in a third registry that serves them on, none declared
    before, and calls them in one turn; every program of the example ends with it, and nothing is left."""
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [forks.program(tmp_path / "python", within=True), "-W", "error", str(EXAMPLES / "registries.py")],
        cwd=tmp_path,
        env={
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "TMPDIR": str(tmp_path / "tmp"),
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "serving 1 tool by weather",
        "serving 1 tool by trains",
        "serving 3 tools by all",
        "A train leaves at 11:04 to Brig, it rains from noon, and you say: ein Billett, bitte.",
    ]
    for name in ("list_tools", "departures", "forecast", "all__mcp__phrases__phrase"):
        assert f"\n> {name} " in done.stderr
    assert "\nx " not in done.stderr
    assert not list((tmp_path / "tmp").glob("jaato-*"))


def test_the_example_of_registries_says_what_it_needs(tmp_path: Path) -> None:
    """Without the extra that MCP servers need it says so, before it starts anything."""
    program = "import runpy, sys; sys.modules['mcp'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(EXAMPLES / "registries.py")],
        env={"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'jaato[mcp]'" in done.stderr
