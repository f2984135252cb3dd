"""What prompt enrichment adds to a message: tools that it speaks of are active at once, and a file is put there once."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from tests.cli.environment import CliEnvironment, call, say

PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def events(desk: CliEnvironment, kind: str) -> list[dict[str, Any]]:
    """The events of a kind in the newest session."""
    return [event for event in desk.events(desk.sessions()[0]["id"]) if event["type"] == kind]


def activated(desk: CliEnvironment) -> list[str]:
    """The tools that were activated, in order."""
    return [name for event in events(desk, "tool.activated") for name in event["tools"]]


def ended(desk: CliEnvironment) -> dict[str, bool]:
    """The calls of the newest session and whether they succeeded."""
    return {event["tool"]: event["result"]["ok"] for event in events(desk, "tool.call_end")}


def test_a_template_in_a_prompt(desk: CliEnvironment) -> None:
    """A prompt with a template in a code block: renderTemplate is active, and works in the model's first call."""
    prompt = "Fill this in for Ann:\n\n```jinja\nDear {{ name }},\n```\n"
    steps = [call("renderTemplate", template="Dear {{ name }}", variables={"name": "Ann"}), say("Done.")]
    made = desk.run("run", *desk.script(*steps), "--yes", prompt)
    assert made.returncode == 0, made.stderr
    assert activated(desk) == ["renderTemplate"]
    assert "renderTemplate" in ended(desk)
    assert "tool_not_active" not in json.dumps(events(desk, "tool.call_end"))


def test_an_image_in_a_prompt(desk: CliEnvironment) -> None:
    """A prompt that mentions an image, to a model that sees: viewImage is active in its first call."""
    (desk.work / "shot.png").write_bytes(PIXEL)
    script = desk.script(call("viewImage", path="shot.png"), say("A dot."), name="vision.json")
    made = desk.run("run", *script, "what is on @shot.png?")
    assert made.returncode == 0, made.stderr
    assert activated(desk) == ["viewImage"]
    assert ended(desk) == {"viewImage": True}


def test_a_note_that_fits(desk: CliEnvironment) -> None:
    """A message for which there is a note: retrieve_memories is active in the first call."""
    store = call("store_memory", content="The deploy key is rotated every Friday.", tags=["deploy"])
    first = [call("get_tool_schemas", names=["store_memory"]), store, say("Noted.")]
    assert desk.run("run", *desk.script(*first), "--yes", "note it").returncode == 0
    second = desk.script(call("retrieve_memories", query="deploy"), say("On Friday."), name="b.json")
    made = desk.run("run", *second, "when is the deploy key rotated?")
    assert made.returncode == 0, made.stderr
    assert activated(desk) == ["retrieve_memories"]
    assert ended(desk) == {"retrieve_memories": True}


def test_a_session_without_a_description(desk: CliEnvironment) -> None:
    """When the model is asked to describe the session, session_describe is active."""
    script = desk.script(*[say(f"Answer {number}.") for number in range(12)])
    for _ in range(10):
        desk.run("run", *script, "--session", "k", "more") if desk.sessions() else desk.run(
            "run", *script, "--name", "k", "go"
        )
        asked = [e for e in events(desk, "message.user") if "session_describe" in json.dumps(e)]
        assert activated(desk) == (["session_describe"] if asked else [])
        if asked:
            return
    raise AssertionError("the description was never asked for")


def test_a_file_is_put_there_once(desk: CliEnvironment) -> None:
    """A file that is mentioned, mentioned in another spelling, and declared as a reference is put after the prompt once."""
    (desk.work / "docs").mkdir()
    (desk.work / "docs/STYLE.md").write_text("Short lines.\n")
    (desk.work / ".jaato").mkdir()
    declared = [
        {"id": "style-guide", "path": "docs/STYLE.md"},
        {"id": "page-one", "url": "http://127.0.0.1:9/"},
    ]
    (desk.work / ".jaato/references.json").write_text(json.dumps({"sources": declared}))
    for prompt in (
        "Follow @docs/STYLE.md here",
        "Follow STYLE.md and @docs/STYLE.md and @./docs/STYLE.md",
        "Follow style-guide and @docs/STYLE.md",
    ):
        assert desk.run("run", *desk.script(say("Yes.")), prompt).returncode == 0
        [message] = events(desk, "message.user")
        assert json.dumps(message).count("Short lines.") == 1, prompt
        assert activated(desk) == []
    assert desk.run("run", *desk.script(say("Yes.")), "Read page-one").returncode == 0
    assert activated(desk) == ["fetch_url"]
