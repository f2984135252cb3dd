"""A store and a workspace that version 0.1.0 left open unchanged, and the work in them goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.environment import call, say
from tests.earlier.desk import HOME, EarlierDesk

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def desk(tmp_path: Path) -> EarlierDesk:
    """The user's machine."""
    made = EarlierDesk(tmp_path, SOURCE)
    made.unpack()
    return made


def answers(desk: EarlierDesk, *args: str) -> Any:
    """What a command prints as JSON."""
    made = desk.run(*args, "--json")
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


def ended(desk: EarlierDesk, session: str) -> list[dict[str, Any]]:
    """The results of a session's calls."""
    made = desk.run("sessions", "export", session)
    assert made.returncode == 0, made.stderr
    log = [json.loads(line) for line in made.stdout.splitlines()]
    return [event["result"] for event in log if event["type"] == "tool.call_end"]


def test_the_log_is_read_as_it_was_written(desk: EarlierDesk) -> None:
    """Names, search, the words, and every byte of an export."""
    names = {session["name"] for session in answers(desk, "sessions", "list")}
    assert {"shop", "cut", "far"} <= names
    assert desk.run("sessions", "export", "shop").stdout == (desk.root / "home" / "shop.jsonl").read_text()
    shown = desk.run("sessions", "show", "shop").stdout
    assert "All is tidy." in shown
    assert "green tea: 7" in shown
    assert "At the server." in desk.run("sessions", "search", "server").stdout


def test_its_bundle_is_imported(desk: EarlierDesk) -> None:
    """The session again, in a store that has none."""
    (desk.state / "jaato.db").unlink()
    made = desk.run("sessions", "import", f"{HOME}/shop.bundle")
    assert made.returncode == 0, made.stderr
    assert "All is tidy." in desk.run("sessions", "show", "shop").stdout


def test_the_session_goes_on(desk: EarlierDesk) -> None:
    """Its active tools, plan, waypoint, notes, shared state, template, backups and the result that was kept aside."""
    handle = next(
        part.split("result:")[1].split()[0].rstrip('".,)\\')
        for result in ended(desk, "shop")
        for block in result["content"]
        if "result:" in (part := block.get("text", ""))
    )
    steps = (
        call("readFile", path=f"result:{handle}", offset=1_900),
        call(
            "get_tool_schemas",
            names=["retrieve_memories", "renderTemplate", "get_shared_state", "undoFileChange"],
        ),
        call("getPlanStatus", plan_id="p1"),
        call("retrieve_memories", query="tea"),
        call("get_shared_state", key="budget"),
        call("undoFileChange", path="order.md"),
        call("get_tool_schemas", names=["restore_waypoint"]),
        call("restore_waypoint", waypoint_id="w1"),
        say("Back."),
    )
    made = desk.run("run", "--yes", "--session", "shop", *desk.script(*steps, before=13), "go back")
    assert (made.returncode, made.stdout) == (0, "Back.\n"), made.stderr
    results = ended(desk, "shop")[-8:]
    assert all(result["ok"] for result in results), results
    texts = [result["content"][0]["text"] for result in results]
    assert "line 1950 of the long list" in texts[0]
    assert "count" in texts[2]
    assert "Mondays" in texts[3]
    assert "40" in texts[4]
    assert (desk.work / "stock.csv").read_text() == "tea,3\ncups,40\n"
    assert not (desk.work / "order.md").exists()


def test_the_call_that_was_cut_off_is_closed(desk: EarlierDesk) -> None:
    """The next message finds a log in which the call has an end."""
    made = desk.run("run", "--session", "cut", *desk.script(say("Here again."), before=1), "go on")
    assert (made.returncode, made.stdout) == (0, "Here again.\n"), made.stderr
    (result,) = ended(desk, "cut")
    assert not result["ok"]


def test_decisions_and_trust_hold(desk: EarlierDesk) -> None:
    """Settings, rules, an answer for good, the saved key, the servers and registries."""
    settings = {name: entry["value"] for name, entry in answers(desk, "config")["settings"].items()}
    assert [settings[name] for name in ("max_turns", "temperature", "keep_days")] == [33, 0.3, 900]
    assert len(answers(desk, "permissions", "list")["grants"]) == 1
    steps = (call("run", command="touch more.txt", need=["write"]), say("Touched."))
    made = desk.run("run", *desk.script(*steps), "touch")
    assert made.returncode == 0, made.stderr
    assert (desk.work / "more.txt").exists()
    refused = (
        call("get_tool_schemas", names=["removeFile"]),
        call("removeFile", path="stock.csv"),
        say("No."),
    )
    assert desk.run("run", "--yes", *desk.script(*refused), "remove").returncode == 4
    assert (desk.work / "stock.csv").exists()
    servers = {server["name"]: server["state"] for server in answers(desk, "mcp", "list")["servers"]}
    assert servers == {"notes": "configured", "far": "configured"}
    assert [entry["name"] for entry in answers(desk, "registry", "list")["registries"]] == ["weather"]
    assert desk.run("logout", "anthropic").returncode == 0


def test_a_saved_session_is_found(desk: EarlierDesk) -> None:
    """The JSON files beside the workspace, and one of them without its log."""
    (desk.state / "jaato.db").unlink()
    (saved,) = [
        path
        for path in (desk.work / ".jaato" / "sessions").glob("*.json")
        if "All is tidy." in path.read_text()
    ]
    made = desk.run(
        "chat", *desk.script(say("Going on."), before=13), text=f"/sessions\n/resume {saved.stem}\nand now?\n"
    )
    assert made.returncode == 0, made.stderr
    assert "Going on." in made.stdout
