"""Among any links, our resolution of a path is that of the system, and ends inside the workspace."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaato.errors import ToolError
from jaato.tools.filesystem import safe_open
from jaato.tools.filesystem.containment import Roots

NAMES = ["a", "b", "c"]
STEPS = [*NAMES, "..", "."]
PARTS = st.lists(st.sampled_from(STEPS), min_size=1, max_size=6)


@settings(max_examples=75, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    links=st.lists(st.tuples(PARTS, PARTS, st.sampled_from(["relative", "inside", "outside"])), max_size=6),
    path=PARTS,
    walk=st.booleans(),
)
def test_the_resolution_agrees_with_the_real_path(
    links: list[tuple[list[str], list[str], str]], path: list[str], walk: bool
) -> None:
    """Among random links, what opens is what realpath says, and inside; what realpath puts inside opens."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        if walk:
            patch.setattr(safe_open, "kernel_open", lambda: None)
        base = Path(os.path.realpath(name))
        w = base / "w"
        for directory in (w / "a" / "b", w / "b" / "c", base / "a" / "b", base / "b"):
            directory.mkdir(parents=True)
            (directory / "c" if not (directory / "c").exists() else directory / "c" / "f").write_text(
                str(directory)
            )
        for where, target, kind in links:
            place = w.joinpath(*[part for part in where if part in NAMES])
            with contextlib.suppress(OSError):
                if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
                    place.rmdir()
                text = "/".join(target)
                prefix = {"relative": "", "inside": f"{w}/", "outside": f"{base}/"}[kind]
                place.symlink_to(prefix + text)
        asked = "/".join(path)
        real = Path(os.path.realpath(w / asked))
        inside = real == w or w in real.parents
        try:
            with Roots(w).open_file(asked) as file:
                opened = os.fstat(file.fileno())
        except ToolError:
            readable = real.is_file() and os.access(w / asked, os.R_OK)
            assert not (inside and readable and not passes_outside(w, asked)), asked
        else:
            assert inside
            assert os.path.samestat(opened, real.stat())


def passes_outside(w: Path, asked: str) -> bool:
    """Whether the way there ever leads through a directory that is neither above nor below the workspace."""
    todo = asked.split("/")
    at = w
    budget = 60
    while todo:
        budget -= 1
        if budget < 0:
            return True
        part = todo.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            at = at.parent
        elif (at / part).is_symlink():
            target = os.readlink(at / part)
            todo = target.split("/") + todo
            if target.startswith("/"):
                at = Path("/")
        else:
            at = at / part
        above = at == w or w in at.parents or at in w.parents
        if not above:
            return True
    return False
