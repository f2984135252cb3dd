"""Run git to read untrusted repositories: nothing that a repository brings is run, nothing is changed.

It runs read-only in the sandbox, where whatever a repository has it start can neither write nor reach the network. The
settings below hold all the same: many of them keep the *result* what the repository's content says (no pager, no monitor
that hides changes, no filter that rewrites, no signature that is asked for), and where a machine has no sandbox all of
them are what keeps a repository's programs from running.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc

from jaato.errors import ToolError, ToolTimeout
from jaato.tools.processes.environment import find_program, split_search_path
from jaato.tools.processes.sandbox.sandbox import ReadOnlyRunner

MAX_COMPLAINT_BYTES = 8_000
MAX_CONFIG_BYTES = 4_194_304
WITHIN_S = 30.0
ATTEMPTS = 5
"""How often the start of a sandbox is retried."""
FILTER = re.compile(r"filter\.(?s:.+)\.(?:clean|smudge|process|required)")
STARTS = re.compile(
    r"lfs\.(?:extension|customtransfer|standalonetransferagent|transfer)\b(?s:.*)", re.IGNORECASE
)
"""Settings by which the user's own content filter would start a program."""
OWN_SCOPES = ("local", "worktree")
LISTING = ("config", "--list", "--show-scope", "--name-only", "-z")
KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES")
"""Variables of git by which the user configures it; others would lead to another repository."""

SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.gitProxy": "false",
    "core.askPass": "",
    "core.editor": "false",
    "core.alternateRefsCommand": "false",
    "core.bigFileThreshold": "16m",
    "credential.helper": "",
    "protocol.allow": "never",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "diff.submodule": "short",
    "diff.autoRefreshIndex": "false",
    "diff.orderFile": os.devnull,
    "diff.renameLimit": "1000",
    "blame.ignoreRevsFile": "",
    "submodule.recurse": "false",
    "i18n.logOutputEncoding": "UTF-8",
    "maintenance.auto": "false",
    "gc.auto": "0",
}
"""Settings that override the repository's configuration, in every command."""


class GitFailed(ToolError):
    """git refused, is not there, or the repository cannot be read."""

    code = "git_failed"


@dataclass(frozen=True, slots=True)
class GitOutput:
    """The result of git: exit code (None: stopped because the output was too long), output, error message."""

    code: int | None
    data: bytes
    complaint: str

    @property
    def cut(self) -> bool:
        """Whether there was more."""
        return self.code is None


def git_program(environ: Mapping[str, str], roots: Iterable[Path] = ()) -> str | None:
    """The git on the PATH of absolute directories; never one that lies where the session may write."""
    return find_program("git", split_search_path(environ.get("PATH")), tuple(roots))


def git_environment(environ: Mapping[str, str], settings: Mapping[str, str] = SETTINGS) -> dict[str, str]:
    """The variables for git: the user's own, none that leads elsewhere, and settings that outrank every file."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_") or name in KEPT}
    pairs = enumerate(settings.items())
    return {
        **kept,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_PAGER": "cat",
        "GIT_ATTR_NOSYSTEM": "1",
        "LC_ALL": "C",
        "GIT_CONFIG_COUNT": str(len(settings)),
        **{
            name: value
            for at, (key, setting) in pairs
            for name, value in ((f"GIT_CONFIG_KEY_{at}", key), (f"GIT_CONFIG_VALUE_{at}", setting))
        },
    }


async def make_environment(
    program: str, cwd: Path, environ: Mapping[str, str], reader: ReadOnlyRunner
) -> dict[str, str]:
    """The variables for git in this repository: as above, and each content filter it configures itself is switched off.

    Those are programs that git would run to compare a file, and the only ones no option or fixed setting stops.
    Raises `GitFailed`, `ToolTimeout`.
    """
    plain = git_environment(environ)
    listed = await run_git(program, LISTING, reader, cwd=cwd, environ=plain, most_bytes=MAX_CONFIG_BYTES)
    if listed.code != 0:
        raise explain_failure(listed.complaint or "the configuration is too long")
    if b"command\0core.fsmonitor\0" not in listed.data:
        raise GitFailed(
            "This version of git cannot be configured to run no programs of the repository. Install git 2.31 or newer."
        )
    return git_environment(environ, SETTINGS | filters_off(listed.data))


def filters_off(listed: bytes) -> dict[str, str]:
    """Settings that switch off every content filter of a listing of scopes and keys, unless it is the user's own and
    the repository configures no program for it."""
    fields = listed.decode("utf-8", "surrogateescape").split("\0")
    pairs = list(zip(fields[::2], fields[1::2], strict=False))
    starts = any(scope in OWN_SCOPES and STARTS.fullmatch(key) for scope, key in pairs)
    names = {
        key.rpartition(".")[0]
        for scope, key in pairs
        if (starts or scope in OWN_SCOPES) and FILTER.fullmatch(key)
    }
    return {
        f"{name}.{part}": value
        for name in names
        for part, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    }


async def run_git(
    program: str,
    arguments: Sequence[str],
    reader: ReadOnlyRunner,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    most_bytes: int,
    within_s: float = WITHIN_S,
) -> GitOutput:
    """Run git in the sandbox of `reader` to its end, until it has written `most_bytes`, or until the time is over; nothing of it survives.

    `environ` comes from `git_environment`. Raises `ToolTimeout`, and `GitFailed` when it cannot be started.
    """
    bounds = most_bytes, within_s
    for _ in range(ATTEMPTS):
        written = await run_once(program, arguments, reader, cwd, environ, *bounds)
        if written.code != 1 or not written.complaint.startswith("bwrap: "):
            break  # else a socket that is hidden went away while the sandbox was made; nothing has run
    return written


async def run_once(
    program: str,
    arguments: Sequence[str],
    reader: ReadOnlyRunner,
    cwd: Path,
    environ: Mapping[str, str],
    most_bytes: int,
    within_s: float,
) -> GitOutput:
    """Run git, if its sandbox starts. Raises as `run_git` does."""
    command = [program, "--no-pager", "--no-optional-locks", "--literal-pathspecs", *arguments]
    try:
        # A start that is cancelled would leak pipes and a process.
        with reader.start(command, cwd) as (argv, handed), anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                argv, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=handed
            )
    except OSError as error:
        raise GitFailed(f"git cannot be started in {str(cwd)!r}: {error.strerror}.") from None
    complaint = bytearray()
    data = bytearray()
    try:
        with anyio.fail_after(within_s):
            async with anyio.create_task_group() as group:
                group.start_soon(collect, process.stderr, complaint, MAX_COMPLAINT_BYTES, True)
                whole = await collect(process.stdout, data, most_bytes, False)
                if not whole:
                    kill_git(process)
            code = await process.wait()
    except TimeoutError:
        raise ToolTimeout(
            f"git {arguments[0]} did not finish within {within_s:g} s and was stopped. "
            "Narrow it with paths, revisions or a smaller limit."
        ) from None
    finally:
        kill_git(process)
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()
    text = bytes(complaint).decode("utf-8", "replace").strip()
    return GitOutput(code if whole else None, bytes(data), text)


async def collect(
    stream: anyio.abc.ByteReceiveStream | None, into: bytearray, most_bytes: int, drain: bool
) -> bool:
    """Read a pipe; tells whether it ended within the bound. `drain` reads on and throws away what is over it."""
    if stream is None:
        return True
    async for chunk in stream:
        room = most_bytes - len(into)
        into += chunk[:room]
        if len(chunk) > room and not drain:
            return False
    return True


def kill_git(process: anyio.abc.Process) -> None:
    """Kill git and whatever it may have started."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def explain_failure(complaint: str) -> GitFailed:
    """The error for a message of git, with what to do."""
    text = complaint[:600] or "git gave no reason"
    low = text.lower()
    if "not a git repository" in low:
        return GitFailed("No git repository is here or above. Name another directory with `repo`.")
    if "dubious ownership" in low:
        return GitFailed(
            "The repository belongs to another user, so git does not trust it. The user can allow it: "
            "git config --global --add safe.directory PATH."
        )
    if "must be run in a work tree" in low:
        return GitFailed("The repository is bare: it has no files to compare. Use git_log and git_show.")
    if "not allowed" in low and "transport" in low:
        return GitFailed(
            "The object is not in this partial clone, and nothing is fetched. Run git fetch first."
        )
    return GitFailed(f"git: {text}")
