"""The mounts of a plan, the same for every back end."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal

from jaato.tools.atomic import is_below
from jaato.tools.processes.sandbox.plan import TMP, MountPlan

Kind = Literal["read", "write", "empty", "seal", "devices", "processes"]
Operation = tuple[Kind, str, str]
"""(kind, source, target): show a path read-only or as it is, an empty directory, make one read-only, `/dev`, `/proc`."""


def operations(plan: MountPlan) -> list[Operation]:
    """The mounts in the order in which later ones cover earlier ones."""
    wide = [path for path in sorted(plan.writable) if is_below(TMP, path)]
    narrow = [path for path in sorted(plan.writable) if path not in wide]
    given: list[Operation] = [("write" if "/" in wide else "read", "/", "/")]
    given += [("write", path, path) for path in wide if path != "/"]
    given += [("devices", "", "/dev"), ("processes", "", "/proc"), ("empty", "", "/run")]
    if TMP not in wide:
        given += [("write", plan.tmp, TMP) if plan.tmp else ("empty", "", TMP)]
        given += [("read", path, path) for path in plan.visible]
    layers: list[Operation] = [("write", path, path) for path in narrow]
    layers += [("write", path, path) for path in plan.pinned if is_in_sight(path, wide, narrow)]
    layers += [("read", path, path) for path in plan.fixed if is_in_sight(path, wide, narrow)]
    layers += [("empty", "", path) for path in plan.hidden_directories]
    layers += [("read", os.devnull, path) for path in plan.hidden_files]
    # from the top: a bind brings all that is below it into sight again
    given += sorted(layers, key=lambda one: one[2])
    given += [("seal", "", path) for path in (*plan.hidden_directories, "/run")]
    return given


def is_in_sight(path: str, wide: Iterable[str], narrow: Iterable[str]) -> bool:
    """Whether a writable path is seen at all: what lies in the machine's `/tmp` is not, but for what is mounted there."""
    return not is_below(path, TMP) or TMP in wide or any(is_below(path, place) for place in narrow)
