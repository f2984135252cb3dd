"""Record what a version leaves behind: `python -m tests.earlier.record SOURCE ARCHIVE`, with the source of that version."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pexpect
from tests.cli.environment import call, say
from tests.earlier.desk import EarlierDesk

LONG = "\n".join(f"line {number} of the long list" for number in range(3_000))
ALLOW = ("--yes", "--name", "shop")


def record(desk: EarlierDesk) -> None:
    """A user's days: settings, trust, a session with everything, one that was killed, one at a server."""
    settings(desk)
    steps(desk, *SESSION, options=ALLOW)
    granted(desk)
    killed(desk)
    served(desk)
    for name, options in (("shop.jsonl", ()), ("shop.bundle", ("--bundle",))):
        must(desk, "sessions", "export", "shop", *options, "--to", f"/srv/home/{name}")
    log = [json.loads(line) for line in (desk.root / "home" / "shop.jsonl").read_text().splitlines()]
    failed = [e["result"] for e in log if e["type"] == "tool.call_end" and not e["result"]["ok"]]
    assert not failed, failed


def must(desk: EarlierDesk, *args: str, text: str | None = None) -> str:
    """What a command prints that succeeds."""
    made = desk.run(*args, text=text)
    assert made.returncode == 0, (args, made.stdout, made.stderr)
    return made.stdout


def settings(desk: EarlierDesk) -> None:
    """Configuration of the user and of the workspace, trusted; a saved key; an MCP server and a registry."""
    (desk.work / "stock.csv").write_text("tea,3\ncups,40\n")
    (desk.work / "long.txt").write_text(LONG)
    own = desk.work / ".jaato"
    own.mkdir()
    (own / "config.toml").write_text("max_turns = 33\n")
    user = desk.root / "home" / ".config" / "jaato"
    user.mkdir(parents=True)
    (user / "config.toml").write_text(
        "temperature = 0.3\nkeep_days = 900\ntrace_file_mb = 5\n"
        'tool_registry_log_days = 3\nservice_keys = ["PETS_TOKEN=api.pets.example"]\nparallel_tools = true\n'
    )
    rules = {
        "defaultPolicy": "ask",
        "whitelist": {"patterns": ["make *"]},
        "blacklist": {"tools": ["removeFile"]},
    }
    (own / "permissions.json").write_text(json.dumps(rules))
    (own / ".sessions.json").write_text(
        json.dumps(
            {"storage_path": ".jaato/sessions", "auto_save_on_exit": True, "checkpoint_after_turns": 1}
        )
    )
    must(desk, "config", "--trust")
    must(desk, "permissions", "trust")
    must(desk, "login", "anthropic", "--key-stdin", text="sk-ant-0123456789abcdefghij\n")
    must(desk, "mcp", "add", "notes", "--scope", "workspace", "--", "notes-server", "--here")
    must(desk, "mcp", "trust", "notes")
    must(desk, "mcp", "add", "far", "--url", "https://mcp.example.com/mcp", "--header", "X-Team: shop")
    must(desk, "registry", "add", "weather", "https://tools.example.com", "--token", "${WEATHER_TOKEN}")


def steps(desk: EarlierDesk, *said: dict[str, Any], options: tuple[str, ...] = ()) -> None:
    """One prompt with these replies."""
    must(desk, "run", *options, *desk.script(*said), "Tidy up the shop")


LATER = "create_waypoint writeNewFile updateFile store_memory create_template set_shared_state delegate"
SESSION = (
    call("get_tool_schemas", names=LATER.split()),
    call("createPlan", title="Tidy up", steps=["count", "write"]),
    call("readFile", path="stock.csv"),
    call("readFile", path="long.txt"),
    call("create_waypoint", description="before the order"),
    call("writeNewFile", path="order.md", content="green tea: 7\n"),
    call("updateFile", path="stock.csv", old="tea,3", new="tea,10"),
    call("store_memory", content="The shop orders tea on Mondays.", tags=["tea"]),
    {"calls": [{"name": "create_template", "arguments": {"name": "order.md", "content": "{{ item }}"}}]},
    call("set_shared_state", key="budget", value={"euros": 40}),
    call("run", command="cat stock.csv; exit 3"),
    call("delegate", task="Count the cups", inline_config={"max_turns": 2}),
    say("forty cups"),
    say("All is tidy."),
)


def granted(desk: EarlierDesk) -> None:
    """An answer for good, given at a terminal."""
    words = desk.command(
        "run",
        *desk.script(call("run", command="touch granted.txt", need=["write"]), say("Touched.")),
        "touch it",
    )
    talk = pexpect.spawn(words[0], words[1:], encoding="utf-8", timeout=60, dimensions=(40, 200))
    talk.expect(r"allow\? ")
    time.sleep(1)
    talk.sendline("a")
    talk.expect("Touched")
    talk.expect(pexpect.EOF)
    talk.close()


def killed(desk: EarlierDesk) -> None:
    """A process that ended in the middle of a call."""
    command = desk.command(
        "run", "--yes", "--name", "cut", *desk.script(call("run", command="sleep 600")), "wait"
    )
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    while b"> run" not in process.stderr.readline():
        pass
    time.sleep(1)
    process.kill()
    process.communicate()


def served(desk: EarlierDesk) -> None:
    """A session at a server, which was stopped in order."""
    server = subprocess.Popen(desk.command("serve"), stderr=subprocess.PIPE)
    try:
        assert server.stderr is not None
        server.stderr.readline()
        steps(desk, say("At the server."), options=("--name", "far"))
    finally:
        must(desk, "serve", "--stop")
        server.communicate(timeout=60)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        made = EarlierDesk(Path(directory), Path(sys.argv[1]).resolve())
        record(made)
        made.pack(Path(sys.argv[2]))
