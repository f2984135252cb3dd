"""The plugin `git`: `git_status`, `git_diff`, `git_log`, `git_blame` and `git_show`."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from jaato import settings
from jaato.abc.plugin import Host, Plugin
from jaato.errors import ToolError
from jaato.plugins.git import repository
from jaato.plugins.git.repository import Repository, open_repository
from jaato.tools.host_services import environ_of, roots_of
from jaato.tools.processes.sandbox.sandbox import sandbox_of
from jaato.tools.tool import tool

DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--ignore-submodules=dirty",
        "--submodule=short", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/")  # fmt: skip
LIST_BYTES = 4_194_304
PATCH_BYTES = 60_000
BLAME_LINES = 500
CURSOR = re.compile(r"(\d{1,9})@([0-9a-f]{40,64}(?:\.{2,3}[0-9a-f]{40,64})?)")
OPERATIONS = {
    "MERGE_HEAD": "merge", "rebase-merge": "rebase", "rebase-apply": "rebase", "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert", "BISECT_LOG": "bisect",
}  # fmt: skip

Repo = Annotated[str, "directory in the repository"]
Paths = Annotated[list[str] | None, "only these files or directories, from the repository's root"]
Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Line = Annotated[int, msgspec.Meta(ge=1)]
MAX_ENTRIES = 500
MAX_FILE_BYTES = 8_000_000
MAX_SHOWN_CHARS = 60_000
LISTING_BYTES = 1_048_576


class GitPlugin(Plugin):
    """Repositories as data. Nothing a repository brings is run, nothing in it is changed, nothing is fetched.

    The host's service `roots` says which directories may be read, `environ` where git is.
    """

    name: ClassVar[str] = "git"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.roots = roots_of(host)
        self.sandbox = sandbox_of(host)

    async def _open(self, repo: str) -> Repository:
        environ = environ_of(self.host) or settings.environment()
        return await open_repository(self.roots, repo, environ, self.sandbox)

    @tool(category="git", access="read")
    async def git_status(
        self,
        repo: Repo = ".",
        untracked: Annotated[
            Literal["files", "directories", "none"], "how to list new files"
        ] = "directories",
        limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100,
    ) -> dict[str, Any]:
        """Show uncommitted changes: branch, upstream and changed files of a repository: staged, unstaged, untracked and
        conflicted, each with its status. Use it before editing or committing."""
        here = await self._open(repo)
        mode = {"files": "all", "directories": "normal", "none": "no"}[untracked]
        asked = ["status", "--porcelain=v2", "--branch", "-z", f"--untracked-files={mode}", "--show-stash",
                 "--ignored=no", "--ignore-submodules=dirty", "--find-renames"]  # fmt: skip
        written = await here.read([*asked, "--", *here.inside([])], LIST_BYTES)
        found = repository.parse_status(written.data, written.cut)
        facts: dict[str, Any] = {"root": str(here.top), "branch": found.pop("branch", None)}
        facts |= {key: value for key, value in found.items() if not isinstance(value, list)}
        operations = {what for name, what in OPERATIONS.items() if (here.git_dir / name).exists()}
        if operations:
            facts["in_progress"] = sorted(operations)
        lists = {key: value for key, value in found.items() if isinstance(value, list)}
        facts["clean"] = not any(lists.values())
        for key, entries in lists.items():
            if entries:
                facts[key] = entries[:limit]
            if len(entries) > limit:
                facts[f"{key}_total"] = len(entries)
        return facts | ({"truncated": True} if written.cut else {})

    @tool(category="git", access="read")
    async def git_diff(
        self,
        repo: Repo = ".",
        staged: Annotated[bool, "what would be committed, instead of what is not staged"] = False,
        from_revision: Annotated[str | None, "compare from this commit, branch or tag"] = None,
        to_revision: Annotated[str | None, "to this one; without it, to the files as they are"] = None,
        paths: Paths = None,
        output: Annotated[Literal["patch", "stat"], "stat counts lines per file"] = "patch",
        context: Annotated[int, msgspec.Meta(ge=0, le=50)] = 3,
    ) -> dict[str, Any]:
        """Show what changed: in uncommitted or staged files, or between commits. Returns each changed file with added and
        deleted lines, and the patch up to 60 kB; narrow a longer one with paths."""
        here = await self._open(repo)
        if to_revision is not None and from_revision is None:
            raise ToolError("to_revision needs from_revision; to see one commit, use git_show.")
        if staged and to_revision is not None:
            raise ToolError("staged compares with one revision at most; leave to_revision out.")
        chosen = ["--cached"] if staged else []
        chosen += [await here.commit(one) for one in (from_revision, to_revision) if one is not None]
        rest = [*chosen, "--", *here.inside(paths or [])]
        return await compare_revisions(here, ["diff"], rest, output, context)

    @tool(category="git", access="read")
    async def git_log(
        self,
        repo: Repo = ".",
        revision: Annotated[str | None, "branch, tag, commit, or a range such as main..topic"] = None,
        paths: Paths = None,
        author: Annotated[str | None, "part of name or email"] = None,
        message: Annotated[str | None, "text the message contains"] = None,
        since: Annotated[str | None, "date such as 2026-01-31 or 2 weeks ago"] = None,
        until: str | None = None,
        follow: Annotated[bool, "go on past the renaming of a single file"] = False,
        limit: Limit = 20,
        cursor: Annotated[str | None, "next_cursor of the page before"] = None,
    ) -> dict[str, Any]:
        """History of commits, newest first: hash, author, date, subject and body. Use it to learn when and why something changed;
        git_show gives a commit's patch."""
        here = await self._open(repo)
        if follow and len(paths or ()) != 1:
            raise ToolError("follow needs exactly one path.")
        skip, span = 0, ""
        if cursor is not None:
            found = CURSOR.fullmatch(cursor)
            if found is None:
                raise ToolError("The cursor is none of git_log's; pass next_cursor as it was given.")
            skip, span = int(found[1]), found[2]
        elif revision is None:
            span = await here.find("HEAD") or ""
            if not span:
                return {"commits": [], "note": "The branch has no commit yet."}
        else:
            span = await here.span(revision)
        asked = ["log", "-z", repository.FORMAT, "--no-color", "--no-show-signature", "--decorate=short", "--no-patch",
                 f"--max-count={limit + 1}", f"--skip={skip}", "--regexp-ignore-case", "--fixed-strings"]  # fmt: skip
        for name, value in (("author", author), ("grep", message), ("since", since), ("until", until)):
            if value is not None:
                if "\0" in value or len(value) > 1000:
                    raise ToolError("Search texts have at most 1,000 characters and no NUL.")
                asked.append(f"--{name}={value}")
        asked += ["--follow"] if follow else []
        written = await here.read([*asked, span, "--", *here.inside(paths or [])], LIST_BYTES)
        commits = list(repository.parse_commits(written.data, written.cut, 1000))
        answer: dict[str, Any] = {"commits": commits[:limit]}
        if len(commits) > limit or written.cut:
            answer["next_cursor"] = f"{skip + min(limit, len(commits))}@{span}"
        return answer

    @tool(category="git", access="read")
    async def git_blame(
        self,
        path: Annotated[str, "file, from the repository's root"],
        first_line: Line = 1,
        last_line: Annotated[int | None, "at most 500 lines are answered"] = None,
        revision: Annotated[str | None, "as of this commit; without it, with uncommitted changes"] = None,
        ignore_whitespace: bool = False,
        repo: Repo = ".",
    ) -> dict[str, Any]:
        """Who last changed each line of a file: runs of lines with commit, author, date and subject. Use it to find
        the commit behind a line."""
        here = await self._open(repo)
        last = min(last_line or first_line + BLAME_LINES - 1, first_line + BLAME_LINES - 1)
        if last < first_line:
            raise ToolError("last_line is before first_line.")
        asked = ["blame", "--porcelain", "--no-textconv", "-M", f"-L{first_line},{last}"]
        asked += ["-w"] if ignore_whitespace else []
        asked += [await here.commit(revision)] if revision is not None else []
        written = await here.read([*asked, "--", *here.inside([path])], LIST_BYTES)
        return {"path": path, "runs": repository.parse_blame(written.data)}

    @tool(category="git", access="read")
    async def git_show(
        self,
        revision: Annotated[str, "commit, branch, tag"] = "HEAD",
        path: Annotated[str | None, "a file or directory as it was then, instead of the commit"] = None,
        output: Annotated[Literal["patch", "stat"], "for a commit"] = "patch",
        offset: Annotated[Line, "for a file: first line"] = 1,
        limit: Annotated[int, "for a file: lines", msgspec.Meta(ge=1, le=5000)] = 1000,
        repo: Repo = ".",
    ) -> dict[str, Any]:
        """One commit with its message, changed files and patch; or, with `path`, a file or directory as it was at that
        revision."""
        here = await self._open(repo)
        if path is not None:
            top = await here.find(revision, "tree")
            if top is None:
                raise ToolError(f"No revision {revision!r} here; git_log shows commits.")
            found = await find_blob(here, top, path)
            if isinstance(found, dict):
                return {"revision": revision, "path": path, **found}
            return {"revision": revision, "path": path, **await read_blob(here, found, offset, limit)}
        name = await here.commit(revision)
        written = await here.read(["log", "-z", repository.FORMAT, "--no-patch", "--max-count=1", "--no-color",
                                   "--no-show-signature", "--decorate=short", name, "--"], LIST_BYTES)  # fmt: skip
        (commit,) = repository.parse_commits(written.data, written.cut, 10_000)
        parent = await here.find(f"{name}^1")
        ends = [name] if parent is None else [parent, name]
        base = ["diff-tree", "-r", "--root", "--no-commit-id"]
        return commit | await compare_revisions(here, base, [*ends, "--", *here.inside([])], output, 3)


async def compare_revisions(
    here: Repository, command: list[str], rest: list[str], output: str, context: int
) -> dict[str, Any]:
    """The changed files of a comparison, and their patch where it is wanted."""
    listed = await here.read([*command, *DIFF, "--raw", "--numstat", "-z", *rest], LIST_BYTES)
    files = repository.parse_changes(listed.data, listed.cut)
    answer: dict[str, Any] = {"files": files[:300], "files_total": len(files)}
    if listed.cut:
        answer["files_total"] = f"more than {len(files)}"
    if output == "patch" and files:
        patch = await here.read([*command, *DIFF, "--patch", f"--unified={context}", *rest], PATCH_BYTES)
        answer["patch"] = repository.decode_content(patch.data)
        if patch.cut:
            answer["truncated"] = "The patch is longer; ask for single files with paths."
    return answer


async def find_blob(here: Repository, top: str, path: str) -> dict[str, Any] | str:
    """The blob at a path of a tree, or what is there when it is no file. Raises `ToolError` when nothing is."""
    (inside,) = here.inside([path])
    if inside == ".":
        return await list_tree(here, top)
    written = await here.read(["ls-tree", "-z", "--full-tree", top, "--", inside], LISTING_BYTES)
    record = written.data.partition(b"\0")[0]
    if not record:
        raise ToolError(f"No {path!r} at that revision; git_show with path . lists what there is.")
    mode, kind, name = record.partition(b"\t")[0].split()
    match kind:
        case b"tree":
            return await list_tree(here, name.decode())
        case b"commit":
            return {"submodule": name.decode()}
    if mode == b"120000":
        target = await here.read(["cat-file", "blob", name.decode()], 4096)
        return {"link_to": repository.decode_name(target.data)}
    return name.decode()


async def list_tree(here: Repository, name: str) -> dict[str, Any]:
    """The entries of a directory; directories end in a slash."""
    written = await here.read(["ls-tree", "-z", "--full-tree", name, "--"], LISTING_BYTES)
    entries = []
    for record in repository.split_fields(written.data, written.cut):
        about, _, entry = record.partition(b"\t")
        entries.append(repository.decode_name(entry) + ("/" if about.split()[1] == b"tree" else ""))
    found: dict[str, Any] = {"entries": entries[:MAX_ENTRIES]}
    return found | ({"entries_total": len(entries)} if len(entries) > MAX_ENTRIES or written.cut else {})


async def read_blob(here: Repository, name: str, offset: int, limit: int) -> dict[str, Any]:
    """The lines of a file's content, from 1."""
    written = await here.read(["cat-file", "blob", name], MAX_FILE_BYTES)
    if b"\0" in written.data[:8000]:
        size = (await here.read(["cat-file", "-s", name], 100)).data.decode().strip()
        return {"binary": True, "size_bytes": int(size)}
    lines = written.data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    chosen = repository.decode_content(b"\n".join(lines[offset - 1 : offset - 1 + limit]))
    found: dict[str, Any] = {"text": chosen[:MAX_SHOWN_CHARS], "lines_total": len(lines)}
    if len(chosen) > MAX_SHOWN_CHARS or offset - 1 + limit < len(lines) or written.cut:
        found["truncated"] = "There is more; ask for other lines with offset and limit."
    return found
