"""The mount plan of a sandbox profile: what a process sees, what it may change, and which secrets and sockets are hidden."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from jaato import version
from jaato.protocol.specs import SandboxAccess, SandboxProfile
from jaato.settings import home_of
from jaato.tools.filesystem.atomic import is_below, resolve_path
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


class MountPlan(msgspec.Struct, frozen=True):
    """What a confined process sees, as data. All paths are absolute, real and exist.

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
    opened = find_opened(access, workspace)
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
    # directories above a hidden path must not be renamed, or the next command would see it under another name
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
    places = [resolve_path(str(workspace)), *find_opened(access, workspace)]
    beside = [path for path in places[1:] if not any(path != one and is_below(path, one) for one in places)]
    return [path for path in dict.fromkeys((places[0], *beside)) if os.path.exists(path)]


def find_opened(access: SandboxAccess, workspace: Path) -> list[str]:
    """The real directories that an access opens beside the workspace. A link in a directory that commands may change opens
    nothing, because it was created after the user was asked."""
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
    """Directories below `/tmp` that stay visible: these places, the home, this Python, programs, jaato itself."""
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


def make_environment(access: SandboxAccess, cache: Path | None) -> dict[str, str]:
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


HOME_DIRECTORIES = """
.ssh .aws .azure .gnupg .kube .docker .oci .ibmcloud .terraform.d .password-store .mozilla .thunderbird .minikube .fly
.config/gcloud .config/gh .config/glab-cli .config/hub .config/jaato .config/op .config/1Password .config/sops .config/rclone
.config/doctl .config/hcloud .config/heroku .config/Bitwarden .config/keybase .config/google-chrome .config/chromium
.config/BraveSoftware .config/microsoft-edge .config/vivaldi .config/opera .config/Signal .config/Slack .config/discord
.config/github-copilot .config/opencode .config/containers .local/state/jaato .local/share/keyrings .local/share/kwalletd
.local/share/opencode .local/share/atuin .var/app snap/firefox snap/chromium .electrum .bitcoin .gemini .codex .claude
""".split()
"""Directories below the home with keys, tokens, cookies and the state of agents."""

HOME_FILES = """
.netrc .git-credentials .config/git/credentials .npmrc .yarnrc .yarnrc.yml .pypirc .vault-token .pgpass .my.cnf .s3cfg .boto
.databrickscfg .snowsql/config .cargo/credentials .cargo/credentials.toml .gem/credentials .composer/auth.json
.config/composer/auth.json .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .nuget/NuGet/NuGet.Config
.condarc .kaggle/kaggle.json .huggingface/token .cache/huggingface/token .claude.json .config/hub.yml .Xauthority .ICEauthority
.bash_history .zsh_history .python_history .psql_history .mysql_history .sqlite_history .node_repl_history .lesshst
.local/share/fish/fish_history
""".split()
"""Files below the home with keys, tokens, or what was typed."""

SYSTEM = """
/etc/shadow /etc/shadow- /etc/ssl/private /etc/krb5.keytab /etc/ssh/ssh_host_rsa_key
/etc/ssh/ssh_host_ecdsa_key /etc/ssh/ssh_host_ed25519_key /etc/wireguard /etc/NetworkManager/system-connections
""".split()
"""Files that only root can read, and that are hidden from a confined root."""

UNIX_SOCKETS = "/proc/net/unix"
LISTENING = 0x10000
DATAGRAM = 2


def hidden_paths(home: str, private: Iterable[str]) -> list[str]:
    """The real paths that exist and are readable, none below another."""
    wanted = [f"{home}/{name}" for name in (*HOME_DIRECTORIES, *HOME_FILES)]
    found = {os.path.realpath(path) for path in (*wanted, *SYSTEM, *private) if os.access(path, os.R_OK)}
    found = {path for path in found if is_reachable(path)} - {"/", home, os.devnull}
    return sorted(path for path in found if not any(above in found for above in parents(path)))


def parents(path: str) -> Iterable[str]:
    """Every directory above an absolute path, nearest first, without the root."""
    above = os.path.dirname(path)
    while above not in ("/", ""):
        yield above
        above = os.path.dirname(above)


def listening_sockets(bases: Iterable[str] = ()) -> list[str]:
    """The paths of sockets that processes listen at, in the network namespace of this process; one with a relative name
    may lie in one of `bases`."""
    try:
        with open(UNIX_SOCKETS, "rb") as listing:
            lines = listing.read().splitlines()[1:]
    except OSError:
        return []
    found: set[str] = set()
    relative: dict[str, str] = {}
    for line in lines:
        fields = line.split(None, 7)
        if len(fields) < 8 or fields[7].startswith(b"@"):
            continue
        if int(fields[3], 16) & LISTENING or int(fields[4], 16) == DATAGRAM:
            name = os.fsdecode(fields[7])
            if name.startswith("/"):
                found.add(resolve_path(name))
            else:
                relative[f"socket:[{int(fields[6])}]"] = name
    if relative or places:
        found |= places_of(relative, bases)
    return sorted(path for path in found if os.path.exists(path) and is_reachable(path))


places: dict[str, str] = {}
"""The paths of sockets with relative names, by their name in `/proc`; empty if not found."""


def places_of(names: Mapping[str, str], bases: Iterable[str]) -> set[str]:
    """The paths of sockets with relative names: from the directory in which a process that holds one works, or from a base."""
    for socket in set(places) - set(names):
        del places[socket]
    wanted = set(names) - set(places)
    for held, directory in holders() if wanted else ():
        if held in wanted and is_socket(path := os.path.join(directory, names[held])):
            places[held] = resolve_path(path)
    for socket in wanted:
        places.setdefault(socket, "")
    below = (f"{base}/{name}" for base in bases for name in names.values())
    return {path for path in places.values() if path} | {
        resolve_path(path) for path in below if is_socket(path)
    }


def holders() -> Iterator[tuple[str, str]]:
    """The open files of every readable process, each with the working directory of the process."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            directory = os.readlink(f"/proc/{number}/cwd")
            for descriptor in os.listdir(f"/proc/{number}/fd"):
                with contextlib.suppress(OSError):
                    yield os.readlink(f"/proc/{number}/fd/{descriptor}"), directory


def is_socket(path: str) -> bool:
    """Whether a socket is at a path."""
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def is_reachable(path: str) -> bool:
    """Whether a confined process of this user can reach a path: one of root has only the rights of the owner.

    A path that it cannot reach needs no mount, and cannot get one.
    """
    if os.geteuid() != 0:
        return True
    for above in parents(path):
        try:
            status = os.stat(above)
        except OSError:
            return False
        if status.st_uid != 0 and not status.st_mode & (0o010 if status.st_gid == 0 else 0o001):
            return False
    return True
