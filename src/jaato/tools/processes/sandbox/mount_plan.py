"""The mount plan of a sandbox profile: what a confined process sees, what it may change, and the mounts in order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jaato import version
from jaato.protocol.specs import SandboxAccess, SandboxProfile
from jaato.settings import home_of
from jaato.tools.filesystem.atomic import is_below, resolve_path
from jaato.tools.processes.sandbox.hidden_paths import hidden_paths, listening_sockets
from jaato.tools.processes.sandbox.protected_paths import ProtectedPaths, above_of

TMP = "/tmp"  # noqa: S108 what is mounted there is the session's own
CACHE = f"{TMP}/.cache"
REMOVED_VARIABLES = frozenset(
    """SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DISPLAY
    WAYLAND_DISPLAY XAUTHORITY XDG_RUNTIME_DIR DOCKER_HOST CONTAINER_HOST KRB5CCNAME TMUX STY
    HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY SOCKS_PROXY RSYNC_PROXY NO_PROXY http_proxy https_proxy all_proxy ftp_proxy
    socks_proxy rsync_proxy no_proxy npm_config_proxy npm_config_https_proxy npm_config_noproxy PIP_PROXY
    CARGO_HTTP_PROXY GLOBAL_AGENT_HTTP_PROXY GLOBAL_AGENT_HTTPS_PROXY GIT_PROXY_COMMAND""".split()
)
"""Variables that lead to sockets, tickets and proxies outside; a proxy's may hold a password."""


@dataclass(frozen=True, slots=True)
class MountPlan:
    """What one confined process sees. All paths are absolute, real and exist.

    `writable` may be changed; `tmp` is mounted at `/tmp`, an empty one where there is none; `visible` are directories below
    `/tmp` that stay in sight, read-only; `hidden_directories` and `hidden_files` are shown empty; `pinned` can be changed
    but neither renamed nor removed; `fixed` is read-only inside what is writable.
    """

    profile: SandboxProfile
    tmp: str
    writable: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    hidden_directories: tuple[str, ...] = ()
    hidden_files: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


def mount_plan(
    access: SandboxAccess,
    workspace: Path,
    tmp: Path | None,
    *,
    environ: Mapping[str, str],
    private: Iterable[Path] = (),
    cache: Path | None = None,
    protected: ProtectedPaths | None = None,
    visible: Iterable[Path] = (),
) -> MountPlan:
    """The plan for an access in this workspace; `private` are directories of jaato's own that are hidden, `protected` the
    control files that stay as they are, `visible` more of those that stay in sight below `/tmp`."""
    home = os.path.realpath(home_of(environ))
    writable: list[str] = []
    protected = protected or ProtectedPaths()
    hidden = hidden_paths(home, [str(path) for path in private])
    opened = opened_places(access, workspace)
    hidden = [path for path in hidden if path not in opened]
    if access.profile == "workspace-write":
        writable = writable_roots(access, workspace)
        if cache is not None and (is_inside(str(cache), hidden) or not is_inside(str(cache), writable)):
            writable.append(str(cache))
    directories = [path for path in hidden if os.path.isdir(path)]
    files = [path for path in hidden if not os.path.isdir(path)]
    seen = visible_below_tmp([workspace, *visible], home, environ)
    covered = (TMP, "/run", "/dev", "/proc", *directories)
    sockets = listening_sockets((resolve_path(str(workspace)), home))
    files += [one for one in sockets if is_inside(one, (*seen, *writable)) or not is_inside(one, covered)]
    fixed = tuple(path for path in protected.fixed if not any(is_below(path, place) for place in hidden))
    # what is above something hidden stays where it is: else that would be in sight for the next command
    above = {one for path in (*directories, *files) for one in above_of(path, writable)}
    pinned = {path for path in above if not is_inside(path, fixed)}.union(protected.pinned)
    return MountPlan(
        profile=access.profile,
        tmp=str(tmp) if tmp is not None else "",
        writable=tuple(writable),
        visible=seen,
        hidden_directories=tuple(directories),
        hidden_files=tuple(dict.fromkeys(files)),
        pinned=tuple(sorted(pinned - {*hidden, *writable})),
        fixed=fixed,
    )


def writable_roots(access: SandboxAccess, workspace: Path) -> list[str]:
    """The workspace and what an access opens beside it, real, as far as it is there. What lies in another of them is left
    out: a command could exchange it for a link while it is mounted."""
    places = [resolve_path(str(workspace)), *opened_places(access, workspace)]
    beside = [path for path in places[1:] if not any(path != one and is_below(path, one) for one in places)]
    return [path for path in dict.fromkeys((places[0], *beside)) if os.path.exists(path)]


def opened_places(access: SandboxAccess, workspace: Path) -> list[str]:
    """What an access opens beside the workspace, real. In a place that commands may change, a link opens nothing: it was
    none when somebody was asked."""
    written = [os.path.normpath(path) for path in access.paths]
    places = [resolve_path(str(workspace)), *written, *map(resolve_path, written)]
    found: dict[str, None] = {}
    for path in written:
        real = resolve_path(path)
        inner = any(path != one and is_below(path, one) for one in places)
        if real == path or not inner:
            found[real] = None
    return list(found)


def visible_below_tmp(places: Iterable[Path], home: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What must stay in sight although it lies below `/tmp`: these places, the home, this Python, programs, ourselves."""
    wanted = [
        *map(os.path.realpath, places),
        home,
        str(Path(version.__file__).resolve().parent.parent),
        os.path.realpath(sys.prefix),
        os.path.realpath(sys.base_prefix),
    ]
    wanted += [
        os.path.realpath(one) for one in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(one)
    ]
    below = sorted({path for path in wanted if is_below(path, TMP) and path != TMP and os.path.isdir(path)})
    return tuple(
        path for path in below if not any(path != other and is_below(path, other) for other in below)
    )


def is_inside(path: str, places: Iterable[str]) -> bool:
    """Whether a path lies in one of the places."""
    return any(is_below(path, place) for place in places)


def confined_environment(access: SandboxAccess, cache: Path | None) -> dict[str, str]:
    """Variables that a confined process gets in place of its own: where temporary files and caches go."""
    place = str(cache) if cache is not None and access.profile == "workspace-write" else CACHE
    return {"TMPDIR": TMP, "XDG_CACHE_HOME": place, "npm_config_cache": f"{place}/npm"}


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
