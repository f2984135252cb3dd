"""Attacks that once did harm, each played to its end: what ran outside, what changed, which secret was read or sent."""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox import gate_rounds, hostile_rounds, killing
from tests.sandbox.attacking import KEY, SECRET, Victim, processes_with
from tests.sandbox.hostile import HOSTILE, evil, lookalike, makefile
from tests.sandbox.running import WORKING
from tests.sandbox.users import FIRST_USER, ROOT_USER, USERS, ground, output_as
from tests.shell.test_hostile import namespace

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design" / "sandbox.md"


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    """A user with secrets; what is left running of an attack is a failure."""
    with Victim(tmp_path) as one:
        yield one
    assert not processes_with(str(tmp_path))


# --- what the sandbox stops -------------------------------------------------------------------------------------


@functools.cache
def played(user: str, backend: str) -> dict[str, Any]:
    """All hostile work of a user with a back end, played once."""
    with ground(user) as place:
        words = [hostile_rounds.__file__, str(place), backend]
        found: dict[str, Any] = json.loads(output_as(user, words, place, environ={"ANTHROPIC_API_KEY": KEY}))
    return found[backend]  # type: ignore[no-any-return]


def sides() -> list[Any]:
    """Each back end as each user; two of them in every run, all when `make test-system` plays everything."""
    usual = [*zip(USERS, (WORKING[:1] + WORKING[-1:])[: len(USERS)], strict=False)]
    every = [(user, backend) for user in USERS for backend in WORKING]
    return [pytest.param(*one, marks=[] if one in usual else pytest.mark.system) for one in every]


@pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")
@pytest.mark.parametrize(("user", "backend"), sides())
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_work_does_harm_without_a_sandbox_and_not_in_it(name: str, user: str, backend: str) -> None:
    """With the same rules and no sandbox it reaches its aim; in a back end it runs, and does no harm to anything."""
    without = played(USERS[0], "none")
    if name not in without:
        pytest.skip(f"{HOSTILE[name].needs} is not installed")
    assert without[name]["harm"], "it does no harm anyway"
    held = played(user, backend)[name]
    assert held["harm"] == []
    assert len(held["denied"]) == (1 if name == "rules_and_trust" else 0), held


def test_what_runs_only_reads_and_says_so(victim: Victim) -> None:
    """A hostile repository's status is a result, with the profile that it ran in, and nobody was asked."""
    lookalike(victim, "sub")
    (result,) = victim.run("cd sub && git status")
    assert (result["sandbox"], result.get("code")) == ("read-only", None)
    assert victim.asked == []


def test_a_refused_write_is_told(victim: Victim) -> None:
    """What could not be written where a command only reads is in its result."""
    victim.write({"two/a": "new\nnew\n", "two/b": "kept\n"})
    (result,) = victim.run("uniq two/*")
    assert result["refused"]


def test_what_a_rule_covers_in_part_is_told(victim: Victim) -> None:
    """A pipeline of which a rule covers one command only reads, and its result names the other."""
    (result,) = victim.run("touch a | tail -1", allow=("run(touch *)",))
    assert (result["sandbox"], (victim.place / "a").exists()) == ("read-only", False)
    assert "tail -1: no rule covers it" in result["note"]


def test_the_workspace_may_be_written(victim: Victim) -> None:
    """An allowed command does write there, or the others would prove nothing."""
    evil(victim)
    (result,) = victim.run(makefile(victim, "./evil"), allow=("run(make test)",))
    assert result["exit_code"] == 0
    assert (victim.place / "hurt").exists()
    assert victim.harm() == []


def test_rules_written_by_a_command_hold_in_no_later_session(victim: Victim) -> None:
    """What `make test` has written and trusted is obeyed neither by its session nor by the next one."""
    calls = HOSTILE["rules_and_trust"].make(victim)
    assert victim.calls(*calls, allow=("run(make test)",))[1]["code"] == "permission_denied"
    (later,) = victim.calls(calls[1])
    assert later["code"] == "permission_denied"
    assert victim.harm() == []


def test_the_keys_of_jaato_are_in_reach_of_no_command(victim: Victim) -> None:
    """A command looks through every process it can see, and through the memory of its parents."""
    lines = (
        "cat /proc/*/environ /proc/*/task/*/environ 2>/dev/null | tr '\\0' '\\n' | sort -u; "
        "grep -a canary /proc/1/mem 2>/dev/null"
    )
    for read_only in (True, False):
        (result,) = victim.run(lines, read_only=read_only, yes=not read_only)
        assert SECRET not in str(result)
        assert KEY not in str(result)
    assert victim.harm() == []


def test_the_documentation_names_what_is_played() -> None:
    """Each row of the table of attacks names plays, every one in exactly one row, or tests that are there."""
    section = PAGE.read_text().partition("## Attacks, and what stops them")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")][2:]
    assert all(len(row) == 3 and row[2].strip() for row in rows)
    named = [name.strip("`") for row in rows for name in row[2].split()]
    assert sorted(name for name in named if "::" not in name) == sorted(HOSTILE)
    for path, _, test in (name.partition("::") for name in named if "::" in name):
        functions = [
            one for one in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(one, ast.FunctionDef)
        ]
        assert test in [one.name for one in functions], (path, test)


# --- rules that forbid ------------------------------------------------------------------------------------------


@functools.cache
def gated(user: str, backend: str) -> dict[str, Any]:
    """What the gate must stop, played once by a user with a back end."""
    with ground(user) as place:
        found: dict[str, Any] = json.loads(
            output_as(user, [gate_rounds.__file__, str(place), backend], place)
        )
    return found


@pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")
@pytest.mark.parametrize(("user", "backend"), sides())
def test_a_forbidden_program_is_not_computed(user: str, backend: str) -> None:
    """Under `--yes` with a rule that denies `rm`, a line that computes what it runs is denied, not run."""
    found = gated(user, backend)["computed"]
    assert found["codes"] == dict.fromkeys(gate_rounds.COMPUTED, "permission_denied")
    assert found["kept"]


# --- control files ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")
@pytest.mark.parametrize(("user", "backend"), sides())
@pytest.mark.parametrize("allowed_by", gate_rounds.OPTIONS)
def test_a_file_tool_that_needs_no_question_asks_for_each_control_file(
    user: str, backend: str, allowed_by: str
) -> None:
    """Files that decide what runs later are written by no rule and in no mode; each is a question, and a source is none."""
    found = gated(user, backend)[allowed_by]
    assert found["written"] == [gate_rounds.SOURCE]
    assert found["codes"] == ["permission_denied"] * len(gate_rounds.CONTROL) + [None]
    assert found["asked"] == len(gate_rounds.CONTROL)


# --- processes --------------------------------------------------------------------------------------------------


@functools.cache
def killings(user: str, killers: tuple[str, ...]) -> dict[str, Any]:
    """All rounds of these killers, played once, one after another in a process namespace."""
    rounds = [f"{backend}:{killer}" for killer in killers for backend in ("none", *WORKING)]
    with ground(user) as place:
        words = [killing.__file__, str(ROOT), str(place), *rounds]
        found: dict[str, Any] = json.loads(output_as(user, words, place, around=namespace()))
    return found


def killed(user: str, backend: str, killer: str) -> dict[str, Any]:
    """Whether a session was killed, and what was left in its process namespace."""
    killers = ("command", "jaato", "outside") if user == USERS[0] else (killer,)
    found: dict[str, Any] = killings(user, killers)[f"{backend}:{killer}"]
    return found


kills = pytest.mark.skipif(
    not ROOT_USER or not namespace(), reason="without a namespace around it this could kill what it must not"
)


@pytest.mark.slow
@kills
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", ["none", *WORKING])
def test_a_command_that_kills_what_watches_it_does_not_outlive_its_call(user: str, backend: str) -> None:
    """A command stops the warden and its supervisors and kills jaato; in the sandbox it sees none of them, and is gone."""
    found = killed(user, backend, "command")
    survives = any(killing.SURVIVOR in line for line in found["left"])
    assert (found["killed"], survives) == (backend == "none", backend == "none"), found
    assert backend == "none" or found["left"] == []


@pytest.mark.slow
@kills
@pytest.mark.parametrize("backend", ["none", *WORKING])
def test_a_killed_jaato_leaves_no_process(backend: str) -> None:
    """jaato is killed while a command of it runs that ignores signals and has left its session."""
    assert killed("this user", backend, "jaato") == {"killed": True, "left": []}


@pytest.mark.slow
@kills
@pytest.mark.parametrize("user", FIRST_USER)
@pytest.mark.parametrize("backend", ["none", *WORKING])
def test_a_command_in_landlock_ends_with_all_that_watches_it(user: str, backend: str) -> None:
    """jaato, its warden and the supervisors are killed from outside at once: Landlock's processes end with them, and as
    SECURITY.md says, a command in bubblewrap does not."""
    found = killed(user, backend, "outside")
    assert found["killed"]
    assert bool(found["left"]) == (backend != "landlock"), found
