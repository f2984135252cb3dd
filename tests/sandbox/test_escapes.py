"""Escapes from the sandbox: each does its harm without one, and none in it, as root and as another user."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox import play
from tests.sandbox.attacks.table import ATTACKS
from tests.sandbox.users import FIRST_USER, ROOT_USER, USERS, ground, output_as

from jaato.tools.processes.sandbox.backends import NAMES, probe

PROFILES = ("read-only", "workspace-write")
WORKING = tuple(name for name in NAMES if probe(name, dict(os.environ)).backend)  # noqa: TID251 a test's own PATH
ROUNDS = tuple(f"{backend}:{profile}" for backend in WORKING for profile in PROFILES)
WITHOUT = ("none:full", "direct:full")
PAGE = Path(__file__).parents[2] / "docs" / "design" / "sandbox.md"
WEAK = "weak:workspace-write"

pytestmark = pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")


SETTINGS = (
    "kernel/core_pattern kernel/hostname kernel/acct kernel/printk vm/stat_interval fs/file-max".split()
)
OURS = ("jaato-test", "jaato-attack", "jaato-outside", *(f"{name}-" for name in ATTACKS), "keys-")
"""What names of the attacks' own begin with, on the machine."""


def machine(user: str, place: Path) -> dict[str, Any]:
    """What attacks could leave behind outside: settings, mounts, keys of the user, and names of their own."""
    keys = output_as(user, ["-c", "print(open('/proc/keys').read())"], place)
    found: dict[str, Any] = {
        name: (Path("/proc/sys") / name).read_text()
        for name in SETTINGS
        if os.path.exists(f"/proc/sys/{name}")
    }
    found["keys"] = sorted(line.split(None, 7)[-1] for line in keys.splitlines() if "jaato" in line)
    found["mounts"] = [line for line in Path("/proc/self/mounts").read_text().splitlines() if "/tmp/" in line]
    for directory in ("/tmp", "/run", "/dev/shm", "/sys/fs/cgroup", "/sys/fs/cgroup/pids"):
        there = os.listdir(directory) if os.path.isdir(directory) else []
        found[directory] = sorted(name for name in there if name.startswith(OURS))
    return found


@functools.cache
def played(user: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """All rounds of a user, played once, and what was on the machine before and after."""
    more = (WEAK,) if user == "this user" and ROOT_USER and "bubblewrap" in WORKING else ()
    with ground(user) as place:
        before = machine(user, place)
        printed = output_as(user, [play.__file__, str(place), *WITHOUT, *ROUNDS, *more], place)
        after = machine(user, place)
    return json.loads(printed.splitlines()[-1]), before, after


def rounds(user: str) -> dict[str, Any]:
    """All rounds of a user."""
    return played(user)[0]


@pytest.mark.parametrize("user", FIRST_USER)
def test_the_attacks_leave_nothing_on_the_machine(user: str) -> None:
    """Also those without a sandbox change no setting for good, and leave no mount, key, file or name."""
    _, before, after = played(user)
    assert {name: (before[name], after[name]) for name in before if after[name] != before[name]} == {}


def works_without(name: str, user: str) -> bool:
    """Whether an attack is one that this user could make without a sandbox."""
    root = user == "this user" and ROOT_USER
    needs = ATTACKS[name].needs
    if needs == "user":
        return user == "another user"
    return needs == "any" or root


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_harms_without_a_sandbox_and_not_in_it(name: str, user: str) -> None:
    """Without a sandbox the attack does harm, if the user has what it takes; in every back end and profile, none."""
    results = rounds(user)
    if works_without(name, user):
        seen = [results[one] for one in WITHOUT if name in results[one]["said"]]
        assert any(name in one["harmed"] for one in seen), [one["said"][name] for one in seen]
    for one in ROUNDS:
        harmed, said = results[one]["harmed"], results[one]["said"]
        held = one.partition(":")[2] in ATTACKS[name].held
        assert (name not in harmed) == held, (one, harmed.get(name), said[name])


def test_there_are_more_than_sixty_attacks() -> None:
    """The table has at least sixty attacks that anyone or root can make."""
    assert len(ATTACKS) >= 60


@pytest.mark.skipif(
    not ROOT_USER or "bubblewrap" not in WORKING, reason="root's capabilities are what is measured"
)
def test_the_attacks_see_what_a_weaker_sandbox_lets_through() -> None:
    """With capabilities left and no filter, mounting, masks, kernel calls and nested namespaces get through."""
    harmed = set(rounds("this user")[WEAK]["harmed"])
    expected = {name for name, one in ATTACKS.items() if one.weak}
    assert expected <= harmed, expected - harmed


def table() -> dict[str, dict[str, str]]:
    """What the documentation says that each back end holds, by attack."""
    lines = PAGE.read_text().partition("### What each back end enforces")[2].splitlines()
    cells = [
        line.strip("|").split("|") for line in lines if line.startswith("|") and "`" in line.split("|")[4]
    ]
    found: dict[str, dict[str, str]] = {}
    for _, bubblewrap, landlock, names in cells:
        for name in names.split():
            assert name.strip("`") not in found, f"{name} is in two rows"
            found[name.strip("`")] = {"bubblewrap": bubblewrap.strip(), "landlock": landlock.strip()}
    return found


def test_the_documentation_has_every_attack() -> None:
    """The table of what each back end enforces has each attack in one row, and no others."""
    assert set(table()) == set(ATTACKS)


@pytest.mark.parametrize("backend", WORKING)
@pytest.mark.parametrize("user", USERS)
def test_the_documentation_says_what_is_enforced(backend: str, user: str) -> None:
    """What the table says is held is what was held, row by row."""
    results = rounds(user)
    for name, said in table().items():
        held = [profile for profile in PROFILES if name not in results[f"{backend}:{profile}"]["harmed"]]
        assert said[backend] == {1: held[0], 2: "yes"}[len(held)], name
