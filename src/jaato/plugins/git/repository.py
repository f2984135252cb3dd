"""Opens a git repository that the session may read, runs git in it safely, and resolves revisions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread

from jaato.errors import ToolError
from jaato.tools.filesystem.containment import Roots
from jaato.tools.processes.git import (
    GitFailed,
    GitOutput,
    explain_failure,
    git_environment,
    git_program,
    make_environment,
    run_git,
)
from jaato.tools.processes.sandbox.sandbox import ReadOnlyRunner, Sandbox

MAX_ANSWER_BYTES = 65_536
MAX_REVISION_CHARS = 500
MAX_ALTERNATES = 100
BORROWING = (
    "objects",
    "objects/info",
    "objects/pack",
    "refs",
    "refs/heads",
    "refs/tags",
    "refs/remotes",
    "info",
)
HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that was looked at: commands run at `top` (bare ones: in `git_dir`) and name paths from there.

    `prefix` is the only part of it the session may read, empty for all of it. `reader` is the sandbox that git runs in.
    """

    program: str
    environ: Mapping[str, str]
    reader: ReadOnlyRunner
    git_dir: Path
    top: Path | None
    prefix: str

    async def ask(self, arguments: Sequence[str], most_bytes: int = MAX_ANSWER_BYTES) -> GitOutput:
        """Run a command, whatever it answers."""
        return await run_git(
            self.program,
            arguments,
            self.reader,
            cwd=self.top or self.git_dir,
            environ=self.environ,
            most_bytes=most_bytes,
        )

    async def read(self, arguments: Sequence[str], most_bytes: int) -> GitOutput:
        """Run a command that must succeed; raises `GitFailed` with git's own words."""
        written = await self.ask(arguments, most_bytes)
        if written.code not in (0, None):
            raise explain_failure(written.complaint)
        return written

    async def find(self, revision: str, kind: str = "commit") -> str | None:
        """The hash a revision means, or None. Raises `ToolError` for what can be no revision."""
        if not revision.strip() or len(revision) > MAX_REVISION_CHARS or re.search(r"[\0\r\n]", revision):
            raise ToolError(f"{revision[:60]!r} is no revision; give a hash, branch, tag or HEAD~2.")
        asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{{kind}}}"]
        answer = await self.ask(asked)
        found = answer.data.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return found if answer.code == 0 and HASH.fullmatch(found) else None

    async def commit(self, revision: str) -> str:
        """The hash of a commit; raises `ToolError` when there is none."""
        found = await self.find(revision)
        if found is None:
            raise ToolError(f"No commit {revision!r} here; git_log shows commits, git_status the branch.")
        return found

    async def span(self, revision: str) -> str:
        """A revision, or a range `a..b` or `a...b`, as hashes."""
        if ".." not in revision or revision.startswith(":"):
            return await self.commit(revision)
        dots = "..." if "..." in revision else ".."
        first, _, last = revision.partition(dots)
        return f"{await self.commit(first or 'HEAD')}{dots}{await self.commit(last or 'HEAD')}"

    def inside(self, paths: Sequence[str]) -> list[str]:
        """Paths as git may be given them: from the root of the repository, absolute ones made so."""
        return [self._inside(path) for path in paths] or ([self.prefix] if self.prefix else [])

    def _inside(self, path: str) -> str:
        if "\0" in path or not path:
            raise ToolError(f"{path!r} is no path; name it from the root of the repository.")
        if path.startswith("/") and self.top is not None:
            if not Path(path).is_relative_to(self.top):
                raise ToolError(f"{path!r} is outside the repository {str(self.top)!r}.")
            path = str(Path(path).relative_to(self.top))
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ToolError(f"{path!r} has .. in it; name the path from the root of the repository.")
        if self.prefix and tuple(parts)[: len(Path(self.prefix).parts)] != Path(self.prefix).parts:
            raise ToolError(
                f"{path!r} is outside {self.prefix!r}, the part of the repository that may be read."
            )
        return "/".join(parts) or "."


async def open_repository(
    roots: Roots, path: str, environ: Mapping[str, str], sandbox: Sandbox
) -> Repository:
    """The repository around a directory that the session may use. git runs in the sandbox. Raises `ToolError` when there is
    none, or it leads to places the session may not read."""
    program = git_program(environ, roots.paths)
    if program is None:
        raise GitFailed("git is not installed, or not on the PATH. Install it to use the git tools.")
    with roots.locate(path) as place:
        directory = place.path
    if not directory.is_dir():
        raise ToolError(f"{path!r} is no directory; name the repository's directory.")
    plain = git_environment(environ)
    reader = await anyio.to_thread.run_sync(sandbox.read_only_runner, (directory, *roots.paths))

    async def ask(*arguments: str) -> GitOutput:
        bound = MAX_ANSWER_BYTES
        return await run_git(program, arguments, reader, cwd=directory, environ=plain, most_bytes=bound)

    async def lines(*options: str) -> list[str]:
        written = await ask("rev-parse", *options)
        if written.code != 0:
            raise explain_failure(written.complaint)
        found = written.data.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
        if len(found) != len(options):
            raise GitFailed(
                "The path of the repository has a line break in it; git cannot tell where it ends."
            )
        return found

    bare, inside, *answers = await lines(
        "--is-bare-repository", "--is-inside-work-tree", "--absolute-git-dir", "--git-common-dir"
    )
    if bare == "false":
        if inside == "false":
            raise GitFailed(
                f"The files of the repository of {path!r} lie outside the directories this session may use, or {path!r} "
                "is inside its .git. Name the directory of its files."
            )
        answers += await lines("--show-toplevel")
    git_dir, common, *tops = (resolve_path(directory, answer) for answer in answers)
    top = tops[0] if tops else None
    if not is_own(resolve_path(directory, "."), git_dir, common, top, roots):
        raise GitFailed(
            f"The repository of {path!r} lies at {str(git_dir)!r}, outside the directories this session may use. "
            "The user can add that place to the setting roots."
        )
    if is_in_session(common, roots) and (stray := find_outside_storage(common, roots)) is not None:
        raise GitFailed(
            f"The repository of {path!r} takes parts of itself from {str(stray)!r}, outside the directories this session "
            "may use. The user can add that place to the setting roots."
        )
    prefix = ""
    if top is not None and not is_in_session(top, roots):
        around = (one for one in roots.paths if directory.is_relative_to(one))
        root = max(around, key=lambda one: len(one.parts))
        prefix = str(root.relative_to(top))
    guarded = await make_environment(program, directory, environ, reader)
    return Repository(program, guarded, reader, git_dir, top, prefix)


def resolve_path(directory: Path, path: str) -> Path:
    """A path git gave, made real."""
    return (directory / path).resolve()


def is_own(directory: Path, git_dir: Path, common: Path, top: Path | None, roots: Roots) -> bool:
    """Whether the repository is the directory's own: around it, in the session's directories, or the one that says
    itself that this is its work tree."""
    if common != git_dir and git_dir.parent != common / "worktrees":
        return False
    if top is None:
        return is_in_session(git_dir, roots)
    if not directory.is_relative_to(top):
        return False
    if not is_in_session(top, roots):  # above the session's directories: only where it stands there by itself
        return (top / ".git").resolve() == git_dir or follow_git_file(top / ".git") == git_dir
    if is_in_session(git_dir, roots):
        return True
    back = first_line(git_dir / "gitdir")
    if back is not None:
        return (git_dir / back).resolve() == (top / ".git").resolve()
    found = re.search(r"^\s*worktree\s*=\s*(.+?)\s*$", first_line(git_dir / "config") or "", re.MULTILINE)
    return found is not None and (git_dir / found[1].strip('"')).resolve() == top  # a submodule's


def find_outside_storage(git_dir: Path, roots: Roots) -> Path | None:
    """Where a repository in the session's directories borrows from outside them, by links or alternates."""
    for folder in (git_dir, *(git_dir / name for name in BORROWING)):
        try:
            links = [Path(entry.path) for entry in os.scandir(folder) if entry.is_symlink()]
        except OSError:
            continue
        for link in links:
            if not is_in_session(link.resolve(), roots):
                return link.resolve()
    waiting, seen = [git_dir / "objects"], set[Path]()
    while waiting:
        objects = waiting.pop().resolve()
        if not is_in_session(objects, roots):
            return objects
        if objects in seen or len(seen) > MAX_ALTERNATES:
            continue
        seen.add(objects)
        waiting += [objects / line for line in read_alternates(objects)]
    return None


def read_alternates(objects: Path) -> list[str]:
    """The places of objects that this one names, as git reads them."""
    try:
        with (objects / "info" / "alternates").open("rb") as file:
            text = os.fsdecode(file.read(MAX_ANSWER_BYTES))
    except OSError:
        return []
    return [
        line.strip('"') for line in text.split("\n") if line and not line.startswith("#") and "\0" not in line
    ]


def follow_git_file(dot_git: Path) -> Path | None:
    """The repository that a `.git` file names."""
    text = first_line(dot_git) or ""
    return (dot_git.parent / text.removeprefix("gitdir: ")).resolve() if text.startswith("gitdir: ") else None


def is_in_session(path: Path, roots: Roots) -> bool:
    """Whether a path lies in a directory of the session."""
    return any(path.is_relative_to(root) for root in roots.paths)


def first_line(path: Path) -> str | None:
    """The one line of a small file of git's, None when there is none."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return None


STATES = {
    "M": "modified",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
    "U": "unmerged",
}


def decode_name(data: bytes) -> str:
    r"""A name as text; bytes that are no UTF-8 become `\xNN`."""
    return data.decode("utf-8", "backslashreplace")


def decode_content(data: bytes) -> str:
    """Content as text; bytes that are no UTF-8 become U+FFFD."""
    return data.decode("utf-8", "replace")


def split_fields(data: bytes, cut: bool) -> list[bytes]:
    """The fields of an output; the last one of a cut output is incomplete and left out."""
    parts = data.split(b"\0")
    return parts[:-1] if cut or not parts[-1] else parts


def parse_status(data: bytes, cut: bool) -> dict[str, Any]:
    """`git status --porcelain=v2 --branch -z` as the branch and four lists."""
    found: dict[str, Any] = {"staged": [], "unstaged": [], "conflicted": [], "untracked": []}
    rest = iter(split_fields(data, cut))
    for record in rest:
        kind = record[:2]
        if kind == b"# ":
            parse_header(record, found)
        elif kind in (b"1 ", b"2 "):
            renamed = kind == b"2 "
            _, state, *_others = record.split(b" ", 2)
            path = record.split(b" ", 9 if renamed else 8)[-1]
            old = next(rest, b"") if renamed else None
            for place, letter in (("staged", chr(state[0])), ("unstaged", chr(state[1]))):
                if letter != ".":
                    found[place].append(parse_change(letter, path, old if letter in "RC" else None))
        elif kind == b"u ":
            found["conflicted"].append({"path": decode_name(record.split(b" ", 10)[-1])})
        elif kind == b"? ":
            found["untracked"].append(decode_name(record[2:]))
    return found


def parse_header(record: bytes, found: dict[str, Any]) -> None:
    """One `# branch…` line."""
    name, _, value = record[2:].partition(b" ")
    match name:
        case b"branch.oid":
            found["commit"] = None if value == b"(initial)" else decode_content(value)
        case b"branch.head":
            found["branch"] = None if value == b"(detached)" else decode_name(value)
        case b"branch.upstream":
            found["upstream"] = decode_name(value)
        case b"branch.ab":
            ahead, behind = value.split()
            found["ahead"], found["behind"] = int(ahead), -int(behind)
        case b"stash":
            found["stashes"] = int(value)


def parse_change(letter: str, path: bytes, old: bytes | None) -> dict[str, Any]:
    """One changed file."""
    entry: dict[str, Any] = {"path": decode_name(path), "status": STATES.get(letter, letter)}
    if old is not None:
        entry["old_path"] = decode_name(old)
    return entry


def parse_changes(data: bytes, cut: bool) -> list[dict[str, Any]]:
    """`--raw --numstat -z`: each changed file with its state and counted lines (none for binary files)."""
    found: dict[bytes, dict[str, Any]] = {}
    touched: set[bytes] = set()
    rest = iter(split_fields(data, cut))
    for record in rest:
        if record.startswith(b":"):
            letter = chr(record.rpartition(b" ")[2][0])
            first = next(rest, b"")
            path = next(rest, b"") if letter in "RC" else first
            found.setdefault(path, parse_change(letter, path, first if letter in "RC" else None))
            modes = record[1:].split(b" ")
            if letter == "M" and modes[0] == modes[1] != b"160000":
                touched.add(path)  # perhaps nothing but its time: then no lines are counted
            else:
                touched.discard(path)
        elif record.count(b"\t") >= 2:
            added, deleted, path = record.split(b"\t", 2)
            if not path:  # a rename: the two names follow
                next(rest, b"")
                path = next(rest, b"")
            touched.discard(path)
            entry = found.setdefault(path, parse_change("M", path, None))
            entry |= {"binary": True} if added == b"-" else {"added": int(added), "deleted": int(deleted)}
    return [entry for path, entry in found.items() if cut or path not in touched]


COMMIT = ("%H", "%P", "%an", "%ae", "%aI", "%cI", "%D", "%s", "%b")
FORMAT = "--format=tformat:" + "%x00".join(COMMIT)


def parse_commits(data: bytes, cut: bool, body_chars: int) -> Iterator[dict[str, Any]]:
    """Commits written in `FORMAT` with `-z`."""
    parts = split_fields(data, cut)
    for at in range(0, len(parts) - len(COMMIT) + 1, len(COMMIT)):
        yield parse_commit(parts[at : at + len(COMMIT)], body_chars)


def parse_commit(parts: list[bytes], body_chars: int) -> dict[str, Any]:
    """One commit from its nine fields."""
    name, parents, author, email, date, committed, refs, subject, body = (
        decode_content(part) for part in parts
    )
    entry: dict[str, Any] = {
        "commit": name,
        "author": f"{author} <{email}>",
        "date": date,
        "subject": subject[:500],
    }
    if committed != date:
        entry["committed"] = committed
    if len(parents.split()) > 1:
        entry["parents"] = parents.split()
    if refs:
        entry["refs"] = refs.split(", ")
    body = body.strip()
    if body and body_chars:
        entry["body"] = body[:body_chars] + ("…" if len(body) > body_chars else "")
    return entry


def parse_blame(data: bytes) -> list[dict[str, Any]]:
    """`git blame --porcelain` as runs of lines of one commit."""
    known: dict[bytes, dict[str, str]] = {}
    runs: list[dict[str, Any]] = []
    name, number = b"", 0
    for line in data.split(b"\n")[:-1]:
        if line.startswith(b"\t"):
            about = known[name]
            if runs and runs[-1]["commit"] == decode_content(name)[:12] and runs[-1]["last"] == number - 1:
                runs[-1]["last"] = number
                runs[-1]["text"] += "\n" + decode_content(line[1:])
            else:
                runs.append({"commit": decode_content(name)[:12], **about, "first": number, "last": number,
                             "text": decode_content(line[1:])})  # fmt: skip
            continue
        word, _, rest = line.partition(b" ")
        if len(word) in (40, 64) and rest[:1].isdigit():
            name, number = word, int(rest.split()[1])
            known.setdefault(name, {})
        elif word in (b"author", b"summary", b"author-time", b"filename") and name:
            parse_blame_fact(known[name], word, rest)
    return runs


def parse_blame_fact(about: dict[str, str], word: bytes, rest: bytes) -> None:
    """One fact about a blamed commit."""
    import datetime

    match word:
        case b"author":
            about["author"] = decode_content(rest)
        case b"summary":
            about["subject"] = decode_content(rest)[:200]
        case b"author-time":
            seconds = min(int(rest), 253_402_300_799)
            about["date"] = datetime.datetime.fromtimestamp(seconds, datetime.UTC).date().isoformat()
