"""A plugin in a distribution of its own: built, installed with pip, and used by a real `jaato` through its entry points."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.environment import CliEnvironment, call, say
from tests.docs.forks import Forks, forking

EXAMPLE = Path(__file__).parents[2] / "examples" / "jaato-tide"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built from a copy and installed into a directory of its own."""
    root = tmp_path_factory.mktemp("tide")
    shutil.copytree(EXAMPLE, root / "source")
    place = root / "site"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--no-index", "--target", str(place), str(root / "source")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """What runs `jaato` with the modules of the one who has installed the example."""
    with forking("pytest") as made:
        yield made


class User(CliEnvironment):
    """A user whose `jaato` is forked from a process that has loaded it, and finds what is installed by itself."""

    def __init__(self, root: Path, forks: Forks) -> None:
        super().__init__(root)
        self.python = str(forks.program(root / "python"))

    @property
    def command(self) -> list[str]:
        return [self.python, "-m", "jaato"]


@pytest.fixture
def desk(tmp_path: Path, installed: Path, forks: Forks) -> User:
    """A user who has installed it."""
    made = User(tmp_path, forks)
    made.env["PYTHONPATH"] = f"{made.env['PYTHONPATH']}:{installed}"
    return made


@pytest.mark.spec("C3", "PluginRegistry and plugins")
@pytest.mark.spec("S3", "GC Plugins (Separate System)")
def test_a_real_process_uses_all_that_it_adds(desk: CliEnvironment) -> None:
    """Its tool runs, its enrichment reaches the model, its strategy makes room, its command is known."""
    (desk.work / "tides.json").write_text(json.dumps({"Husum": 3.5}))
    (desk.work / "big.txt").write_text("water " * 2_000)
    script = desk.script(
        call("get_tool_schemas", names=["tide_at"]),
        call("readFile", path="big.txt"),
        call("tide_at", harbour="Husum", hour=5.0),
        say("It falls."),
        say("Still."),
    )
    first = desk.run("run", *script, "--output", "json", "How is the tide?")
    assert first.returncode == 0, first.stderr
    session = desk.sessions()[0]["id"]
    events = desk.events(session)
    asked = next(event for event in events if event["type"] == "message.user")
    assert "High waters are recorded for: Husum." in asked["message"]["parts"][-1]["text"]
    ended = [event for event in events if event["type"] == "tool.call_end"]
    assert ended[-1]["result"]["structured"]["water"] == "falls"
    second = desk.run(
        "run", *script, "--continue", "and now?", environ={"JAATO_GC": "gc_ebb", "JAATO_GC_THRESHOLD": "0.5"}
    )
    assert second.returncode == 0, second.stderr
    made = [event for event in desk.events(session) if event["type"] == "gc.completed"]
    assert made[0]["strategy"] == "gc_ebb"
    assert "problem" not in made[0]
    assert made[0]["tokens_after"] < made[0]["tokens_before"]


def test_its_command_is_typed_by_the_user(desk: CliEnvironment) -> None:
    """In a chat, /tides shows what is recorded."""
    (desk.work / "tides.json").write_text(json.dumps({"Husum": 3.5}))
    done = desk.run("chat", *desk.script(say("yes")), stdin="/tides\n/exit\n")
    assert "Husum: 3.5 h" in done.stdout + done.stderr


def test_it_is_listed_checked_and_switched_off(desk: CliEnvironment) -> None:
    """`jaato plugins` names its package, `check` passes, `disabled_plugins` keeps it out."""
    rows = {row["name"]: row for row in json.loads(desk.run("plugins", "list", "--json").stdout)}
    assert (rows["tide"]["standing"], rows["tide"]["source"]) == ("on", "package jaato-tide")
    assert rows["gc_ebb"]["detail"] == "GC strategy"
    for name in ("tide", "gc_ebb"):
        checked = desk.run("plugins", "check", name)
        assert checked.returncode == 0, checked.stdout
    off = {"JAATO_DISABLED_PLUGINS": "tide"}
    rows = {row["name"]: row for row in json.loads(desk.run("plugins", "list", "--json", environ=off).stdout)}
    assert rows["tide"]["standing"] == "off"
    assert "tide_at" not in desk.run("tools", "list", environ=off).stdout


def test_its_authors_own_tests_pass(desk: User, tmp_path: Path) -> None:
    """The tests that come with the example are those an author would write."""
    shutil.copytree(EXAMPLE / "tests", tmp_path / "theirs")
    done = subprocess.run(
        [desk.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "theirs")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=desk.env,
        check=False,
    )
    assert done.returncode == 0, done.stdout
