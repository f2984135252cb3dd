"""Paths hidden from a sandboxed process: credentials, and sockets that lead out."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from jaato.tools.filesystem.atomic import resolve_path

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
"""What only root can read, and a confined root must not."""

UNIX_SOCKETS = "/proc/net/unix"
LISTENING = 0x10000
DATAGRAM = 2


def hidden_paths(home: str, private: Iterable[str]) -> list[str]:
    """The real paths of what is there and can be read, none below another."""
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
    """The paths of sockets outside that somebody listens at, in the network namespace of this process; what has a relative
    name may lie in one of `bases`."""
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
"""Where sockets are whose names are relative, by what `/proc` calls them; empty where it was not found."""


def places_of(names: Mapping[str, str], bases: Iterable[str]) -> set[str]:
    """The paths of sockets with relative names: from the directory in which whoever holds one works, or from a base."""
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
    """What each process that can be looked into has open, with its working directory."""
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
    """Whether a confined process of this user comes to a path: one of root's has the rights of its owner, no others.

    What it cannot come to needs no cover, and cannot be covered either.
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
