"""A tool that the model was not shown, found among five thousand and used, in a real process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment, call, say

from jaato.providers.local.models import MODELS
from jaato.settings import environment, user_dir

PLUGIN = Path(__file__).parents[2] / "examples/many-tools/jaato/plugins/many_tools.py"
MOST_TOKENS = 1200
LOCAL_TIMEOUT_S = 900
TASK = "Book the meeting room Aurora for 2026-11-24."
BOOKED = "The room Aurora is yours on 2026-11-24, confirmation K7Q2."
QUESTION = (
    "Use a tool to find out which phase the moon has on 2026-11-24, and tell me how many days old it is."
)
ANSWER = "On 2026-11-24 the moon is full, 14.8 days old."


def with_tools(desk: CliEnvironment, count: int) -> None:
    """Give the user the plugin, with this many tools."""
    folder = desk.config / "plugins"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "many_tools.py").write_text(PLUGIN.read_text().replace("COUNT = 5_000", f"COUNT = {count}"))


def called(output: str) -> list[tuple[str, str]]:
    """The tools called and what they said, in order, of a run whose output was its events."""
    events = [json.loads(line) for line in output.splitlines()]
    results = [event["result"] for event in events if event["type"] == "tool.call_end"]
    return [
        (one["name"], "".join(part.get("text", "") for part in one.get("content", []))) for one in results
    ]


def test_the_scripted_model_finds_and_uses_a_tool_out_of_five_thousand(desk: CliEnvironment) -> None:
    """Searched for in other words, its schema read, called: it was declared nowhere before, and is what is found."""
    with_tools(desk, 5000)
    flags = desk.script(
        call("list_tools", queries=["is it full moon tonight"], limit=3),
        call("get_tool_schemas", names=["lunar_phase"]),
        call("lunar_phase", date="2026-11-24"),
        say("Full."),
    )
    made = desk.run("run", *flags, "--output", "events", "--verbose", QUESTION)
    assert made.returncode == 0, made.stderr
    (search, listed), (schemas, schema), (last, answer) = called(made.stdout)
    assert [search, schemas, last] == ["list_tools", "get_tool_schemas", "lunar_phase"]
    assert json.loads(listed)["results"][0]["tools"][0]["name"] == "lunar_phase"
    assert json.loads(schema)["activated"] == ["lunar_phase"]
    assert answer == ANSWER


@pytest.mark.parametrize("count", [100, 1000, 5000])
def test_what_is_declared_does_not_grow(desk: CliEnvironment, count: int) -> None:
    """However many tools are known, the first request declares the same few, in at most 1,200 tokens."""
    with_tools(desk, count)
    weighed = json.loads(desk.run("tools", "tokens", "--json").stdout)
    assert len(weighed["tools"]) > count
    assert weighed["first_request_tokens"] <= MOST_TOKENS


def local_model() -> Path | None:
    """The file of the embedded model, if it is on this machine."""
    chosen = environment().get("JAATO_LOCAL_MODEL")
    if chosen:
        return Path(chosen)
    folder = user_dir(environment(), "XDG_CACHE_HOME", ".cache") / "jaato" / "models"
    return next((path for model in MODELS.values() if (path := folder / model.file_name).is_file()), None)


def test_the_embedded_model_finds_and_uses_a_tool_out_of_five_thousand(desk: CliEnvironment) -> None:
    """The small model on this machine searches, reads the schema and calls the tool, for nothing else can do it."""
    model = local_model()
    if model is None:
        pytest.skip("the embedded model is not here: `make demo` fetches it; or name it in JAATO_LOCAL_MODEL")
    with_tools(desk, 5000)
    made = subprocess.run(
        [*desk.command, "run", "--provider", "local", "--yes", "--output", "events", TASK],
        cwd=desk.work,
        env=desk.env | {"JAATO_LOCAL_MODEL": str(model)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LOCAL_TIMEOUT_S,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    told = called(made.stdout)
    assert "list_tools" in [name for name, _ in told]
    assert ("reserve_room", BOOKED) in told
