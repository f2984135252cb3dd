"""Every command of the README where the core is installed and none of the extras."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pexpect
import pytest
from tests.cli.environment import CliEnvironment, call, say

CORE = Path(f"{sys.prefix}-core") / "bin"
LACKING = "pip install 'jaato[{}]'"


class CoreDesk(CliEnvironment):
    """A user whose `jaato` has the core alone."""

    @property
    def command(self) -> list[str]:
        """The command as pip has installed it."""
        return [str(CORE / "jaato")]


@pytest.fixture
def core(tmp_path: Path) -> CoreDesk:
    """A machine with the core install."""
    assert (CORE / "jaato").exists(), "make test installs it"
    desk = CoreDesk(tmp_path)
    desk.env = {name: value for name, value in desk.env.items() if name != "PYTHONPATH"}
    return desk


@pytest.fixture
def daemon(core: CoreDesk) -> Iterator[CoreDesk]:
    """With a server that runs in the background."""
    begun = core.run("serve", "--daemon")
    assert begun.returncode == 0, begun.stderr
    try:
        yield core
    finally:
        assert core.run("serve", "--stop").returncode == 0


def test_the_extras_are_not_there() -> None:
    """What the other environment of the tests has, this one lacks; else these tests could not fail."""
    code = (
        "import importlib.util as u; print([n for n in "
        "('acp', 'mcp', 'mcp_types', 'pydantic', 'prompt_toolkit', 'textual', 'onnxruntime', 'yaml') if u.find_spec(n)])"
    )
    made = subprocess.run([CORE / "python", "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "[]\n"


@pytest.mark.parametrize("words", [[], ["tui"], ["-c"], ["fix the bug"]])
def test_the_full_screen_client_says_what_it_needs(core: CoreDesk, words: list[str]) -> None:
    """At a terminal without textual: what to install, and plain lines instead; also for `jaato` alone, with options, and with
    a prompt."""
    env = {**core.env, "TERM": "xterm", "COLUMNS": "200"}
    child = pexpect.spawn(
        str(CORE / "jaato"), words, cwd=str(core.work), env=env, encoding="utf-8", timeout=60
    )
    child.expect("Plain lines are used, .* pip install 'jaato\\[tui]'")
    child.expect("No (model is set up|session)")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        ("--help", 0, "run"),
        ("--version", 0, "jaato"),
        ("tools list", 0, "readFile"),
        ("tools search copy a file", 0, "copyFile"),
        ("tools schema copyFile", 0, "destination_path"),
        ("tools tokens", 0, "readFile"),
        ("mcp list", 0, ""),
        ("mcp add files -- files-server", 0, "files"),
        ("mcp tools", 0, ""),
        ("mcp serve", 2, LACKING.format("mcp")),
        ("acp", 2, LACKING.format("acp")),
        ("registry list", 0, ""),
        ("registry add weather https://tools.example.com --token ${WEATHER_TOKEN}", 0, "weather"),
        ("registry log", 0, ""),
        ("plugins list", 0, ""),
        ("models", 2, "jaato login"),
        ("sessions list", 0, ""),
        ("usage", 0, "No session has used anything"),
        ("permissions list", 0, ""),
        ("permissions explain make", 0, "make"),
        ("config", 0, "provider"),
        ("logout anthropic", 2, "No key of anthropic"),
        ("doctor", 1, LACKING.format("local")),
        ("run --provider local hello", 2, LACKING.format("local")),
    ],
)
def test_a_command_answers(core: CoreDesk, line: str, code: int, part: str) -> None:
    """It does its work, or names the extra that it needs; no name of a Python module is shown to anybody."""
    made = core.run(*line.split())
    assert (made.returncode, part in made.stdout + made.stderr) == (code, True), made.stdout + made.stderr
    assert "Internal error" not in made.stderr
    assert "Traceback" not in made.stderr


def test_a_run_and_what_is_kept_of_it(core: CoreDesk) -> None:
    """Tools of files, a command in its sandbox, and the session afterwards."""
    (core.work / "stock.csv").write_text("tea,3\n")
    steps = [call("readFile", path="stock.csv"), call("run", command="cat stock.csv"), say("three")]
    made = core.run("run", *core.script(*steps), "how much tea?")
    assert (made.returncode, made.stdout) == (0, "three\n"), made.stderr
    shown = core.run("sessions", "list", "--json")
    (session,) = json.loads(shown.stdout)
    exported = core.run("sessions", "export", session["id"])
    assert "tea,3" in exported.stdout
    assert core.run("sessions", "delete", session["id"], "--yes").returncode == 0


def test_a_server(daemon: CoreDesk) -> None:
    """`run` finds the server, `events` reads what it did."""
    made = daemon.run("run", *daemon.script(say("done")), "go on")
    assert (made.returncode, made.stdout) == (0, "done\n"), made.stderr
    (session,) = json.loads(daemon.run("sessions", "list", "--json").stdout)
    events = daemon.run("events", session["id"])
    assert "done" in events.stdout, events.stderr


def test_a_registry_serves(core: CoreDesk) -> None:
    """The server of tools answers over HTTP, and a flow and the client's commands use it."""
    serving = core.start("registry", "serve", "--port", "0", stderr=subprocess.PIPE)
    try:
        assert serving.stderr is not None
        said = ""
        while "http://" not in said:
            line = serving.stderr.readline().decode()
            assert line, f"it ended: {said}"
            said += line
        url = "http://" + said.partition("http://")[2].split()[0].rstrip(".,;/")
        body = json.dumps({"args": {"expression": "6 * 7"}}).encode()
        request = Request(f"{url}/v1/tools/calc:invoke", body, {"content-type": "application/json"})
        with urlopen(request, timeout=30) as answer:
            assert json.load(answer)["result"]["value"] == 42
        added = core.run("registry", "add", "here", url)
        assert added.returncode == 0, added.stderr
        invoked = core.run("registry", "invoke", "here", "calc", '{"expression": "6 * 7"}')
        assert "42" in invoked.stdout, invoked.stderr
    finally:
        serving.terminate()
        serving.communicate(timeout=60)


def test_the_library(core: CoreDesk) -> None:
    """The example of the README, with the scripted model."""
    script = core.script(call("price", item="tea"), say("3.50 euros"))[-1]
    program = core.work / "program.py"
    program.write_text(
        "from jaato import Agent, tool\n\n\n@tool(access='read')\ndef price(item: str) -> float:\n"
        '    """The price."""\n    return 3.5\n\n\n'
        f"print(Agent(provider='scripted', model={script!r}, tools=[price]).run_sync('How much?').text)\n"
    )
    made = subprocess.run(
        [CORE / "python", program],
        cwd=core.work,
        env=core.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.stdout == "3.50 euros\n", made.stderr


def test_a_budget_in_money_names_the_extra_for_prices(core: CoreDesk) -> None:
    """Without the price list it could not be held: nothing is sent, and the remedy is named."""
    flags = ["--provider", "anthropic", "--model", "claude-opus-5-5", "--budget", "$2"]
    made = core.run("run", *flags, "hello", environ={"ANTHROPIC_API_KEY": "sk-test"})
    assert (made.returncode, made.stdout) == (2, "")
    assert LACKING.format("prices") in made.stderr


def test_configured_mcp_servers_without_the_extra(core: CoreDesk) -> None:
    """The list of servers names the package that is missing, and so does the first search for tools to the model."""
    assert core.run("mcp", "add", "files", "--", "files-server").returncode == 0
    listed = core.run("mcp", "list")
    assert (listed.returncode, "files" in listed.stdout) == (0, True)
    assert LACKING.format("mcp") in listed.stderr
    script = core.script(call("list_tools", query="copy a file"), say("Without it."))
    made = core.run("run", *script, "copy")
    assert (made.returncode, made.stdout) == (0, "Without it.\n"), made.stderr
    [ended] = [e for e in core.events(core.sessions()[0]["id"]) if e["type"] == "tool.call_end"]
    assert LACKING.format("mcp") in ended["result"]["content"][0]["text"]
