"""The plugin `file_edit`: the file tools."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from jaato.abc.plugin import Host, Plugin
from jaato.errors import PluginError
from jaato.plugins.files import previews, reading
from jaato.plugins.files.apply_patch import MAX_PATCH_CHARS, apply
from jaato.plugins.files.diff import make_unified_diff
from jaato.plugins.files.edits import (
    Edit,
    EditRefused,
    change_result,
    edit_many,
    edit_one,
    refuse_slash,
    refuse_surrogates,
    retry_on_change,
)
from jaato.plugins.files.find_replace import Search, replace_all
from jaato.plugins.files.patch_parser import parse_patch
from jaato.plugins.files.reading import HANDLE, read_handle, read_lines
from jaato.protocol.specs import FileChange
from jaato.tools.call import SERVICES, Call, Output
from jaato.tools.filesystem.backup_directory import PLACE
from jaato.tools.filesystem.backups import SET, Backups
from jaato.tools.filesystem.changes import Change, Changes
from jaato.tools.filesystem.errors import PathRefused
from jaato.tools.filesystem.moves import check, move
from jaato.tools.filesystem.transactions import recover_transactions
from jaato.tools.filesystem.undo import find_backup, restore, undo
from jaato.tools.host_services import roots_of
from jaato.tools.tool import tool
from jaato.typed_decoding import convert

FILES = "filesystem"
MOVED = {"old_path": "source_path", "new_path": "destination_path"}


def backup_bounds(setting: Any) -> dict[str, int]:
    """The bounds of the backups from the plugin's settings. Raises `PluginError`."""
    known = {"max_count", "max_bytes"}
    if (
        not isinstance(setting, dict)
        or not known.issuperset(setting)
        or any(type(value) is not int or value < 1 for value in setting.values())
    ):
        raise PluginError(
            f"file_edit: backups takes max_count and max_bytes, positive integers; not {setting!r}."
        )
    return setting


class FilesPlugin(Plugin):
    """Read, write, edit, move and restore files below the workspace and what was granted.

    The host's service `roots` says what that is; without it, the host's workspace and the setting `granted`.
    The setting `backups` takes `max_count` and `max_bytes`.
    """

    name = "file_edit"
    looks_at = (f"{PLACE}/staging/*{SET}",)

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.roots = roots_of(host)
        self.backups = Backups(self.roots.workspace, **backup_bounds(host.config.get("backups", {})))
        self.changes = Changes(self.roots, self.backups)
        recover_transactions(self.changes)

    def set_workspace_path(self, path: str) -> None:
        """Work below this directory from now on; backups are kept there too."""
        self.roots.move(Path(path))
        if self.backups.workspace != self.roots.workspace:
            self.backups = Backups(self.roots.workspace, **backup_bounds(self.host.config.get("backups", {})))
            self.changes = Changes(self.roots, self.backups)

    @tool(
        category=FILES,
        access="write",
        examples=({"patch": "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"},),
        previews="preview_patch",
    )
    def apply_patch(
        self,
        patch: Annotated[str, Meta(min_length=1, max_length=MAX_PATCH_CHARS, description="the diff itself")],
        path: Annotated[str, "directory that the names in the patch are relative to"] = ".",
        dry_run: Annotated[bool, "only say whether it would fit"] = False,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Apply a patch: a unified diff, as git diff or diff -u make it, to one or many files; creates, deletes and renames
        too. All or nothing. A hunk that does not fit is reported with the nearest match."""
        return apply(self.changes, parse_patch(patch), path, call, dry_run=dry_run)

    @tool(category=FILES, access="read", core=True)
    def readFile(
        self,
        path: str,
        offset: Annotated[int, "first line, from 1; -n: the last n (for result: handles, bytes)"] = 0,
        limit: int | None = None,
        *,
        call: Call,
    ) -> str | Output:
        """Show the contents of a text file or an image, or read on in a result:… handle."""
        if limit is not None and limit < 1:
            raise EditRefused("limit must be at least 1. Leave it out for the usual number of lines.")
        if path.startswith(HANDLE):
            return read_handle(path, offset, limit, call)
        return read_lines(self.roots, path, offset, limit, call)

    @tool(category=FILES, access="write", aliases={"writeFile": {}}, previews="preview_write")
    def writeNewFile(self, path: str, content: str, *, call: Call) -> dict[str, Any]:
        """Create a file: write or save text to a new file, making its missing directories. Refuses a path
        that exists; use updateFile for that."""
        refuse_slash(path)
        refuse_surrogates(content)
        if not self.changes.is_absent(path):
            raise PathRefused(
                f"{path!r} exists already. Use updateFile to change it, or choose another name."
            )
        with self.changes.stage() as staging:
            target = staging.target(path, parents=True)
            buffer = self.changes.load_absent(target, call)
            change = Change(target, "writeNewFile", None, content.encode(), buffer=buffer, made=staging.made)
            self.changes.commit([change], call)
            return change_result(change, make_unified_diff("", content))

    @tool(
        category=FILES,
        access="write",
        examples=(
            {"path": "app.py", "old": "retries = 3", "new": "retries = 5"},
            {"path": "app.py", "old": "return None", "new": "return total", "prologue": "def total_price("},
        ),
        previews="preview_update",
    )
    def updateFile(
        self,
        path: str,
        *,
        old: Annotated[str | None, "exact text to replace; must occur once"] = None,
        new: Annotated[str | None, "what replaces it"] = None,
        prologue: Annotated[str | None, "text somewhere before old, to tell it apart"] = None,
        epilogue: Annotated[str | None, "text somewhere after old"] = None,
        new_content: Annotated[str | None, "instead: the whole new file"] = None,
        call: Call,
    ) -> dict[str, Any]:
        """Edit a file: modify, add, insert or append lines of text, old becoming new where it occurs exactly once,
        or overwrite it with new_content. Newlines and encoding are kept. Returns a diff of the edit."""
        edit = Edit(path, old, new, prologue, epilogue, new_content)
        for text in (new, new_content):
            refuse_surrogates(text or "")
        with self.roots.helpful(path):
            return retry_on_change(lambda: edit_one(self.changes, edit, call), [edit])

    @tool(category=FILES, access="write", aliases={"deleteFile": {}})
    def removeFile(self, path: str, *, call: Call) -> dict[str, Any]:
        """Delete or remove a file, a link or an empty directory; undoFileChange brings it back."""
        with (
            self.roots.helpful(path),
            self.changes.lock,
            self.changes.target(path, follow=False) as target,
        ):
            if stat.S_ISDIR(target.info.st_mode):
                return reading.remove_directory(self.changes, target, call)
            change = Change(target, "removeFile", self.changes.see(target), None)
            self.changes.commit([change], call)
            return change_result(change, "")

    @tool(category=FILES, access="write", aliases={"renameFile": MOVED})
    def moveFile(
        self, source_path: str, destination_path: str, overwrite: bool = False, *, call: Call
    ) -> dict[str, Any]:
        """Move or rename a file or directory. destination_path is the full new path, not the directory to
        move into."""
        return change_result(move(self.changes, source_path, destination_path, call, overwrite=overwrite), "")

    @tool(category=FILES, access="write")
    def copyFile(
        self, source_path: str, destination_path: str, overwrite: bool = False, *, call: Call
    ) -> dict[str, Any]:
        """Copy one file, of any size. destination_path is the full path of the copy."""
        refuse_slash(destination_path)
        with self.roots.open_file(source_path) as source, self.changes.stage() as staging:
            info = os.fstat(source.fileno())
            here, there = staging.target(source_path), staging.target(destination_path, parents=True)
            check(here, there, overwrite)
            self.changes.refuse_unsaved(here, call)
            seen = self.changes.see(there)
            mode = None if seen else info.st_mode & 0o777
            change = Change(there, "copyFile", seen, source.fileno(), mode, made=staging.made)
            self.changes.commit([change], call)
            return {**change_result(change, ""), "size_bytes": info.st_size}

    @tool(category=FILES, access="write")
    def createDirectory(self, path: str, *, call: Call) -> dict[str, Any]:
        """Make a directory (folder) and the missing ones above it. Fine when it exists."""
        self.roots.relative(path)  # what cannot be a path is refused by its own name
        made = self.changes.make_parents(f"{path.rstrip('/')}/x")
        call.changed += [FileChange(one, "created", directory=True) for one in made[:1]]
        return {"path": path, "created": made}

    @tool(category=FILES, access="read")
    def list_directory(self, path: str = ".", limit: int = 500, offset: int = 0) -> Output:
        """List one directory: show the files and folders in it, in order, with sizes in bytes."""
        return reading.list_directory(self.roots, path, max(0, offset), max(1, limit))

    @tool(category=FILES, access="read")
    def get_file_info(self, path: str) -> dict[str, Any]:
        """Tell what a file or path is: how large (size), permissions (mode), owner, when it was modified, type,
        encoding, newlines, link target."""
        return reading.file_info(self.roots, path)

    @tool(
        category=FILES,
        access="write",
        examples=(
            {
                "edits": [
                    {"path": "a.py", "old": "import x", "new": "import y"},
                    {"path": "b.txt", "new_content": "new file"},
                ]
            },
        ),
        previews="preview_many",
    )
    def multiFileEdit(
        self,
        edits: Annotated[list[Edit], "each as for updateFile; new_content also creates a file"],
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Apply several edits at once, in one or many files, all or nothing: if one does not fit, nothing changes.
        Edits of one file apply in order."""
        return {"files": retry_on_change(lambda: edit_many(self.changes, edits, call), edits)}

    @tool(
        category=FILES,
        access="write",
        examples=(
            {
                "pattern": "oldName",
                "replacement": "newName",
                "path": "src",
                "glob": "**/*.py",
                "dry_run": False,
            },
            {"pattern": "(\\w+)_old", "replacement": "\\1", "regex": True},
        ),
        previews="preview_replacements",
    )
    def findAndReplace(
        self,
        pattern: str,
        replacement: str,
        *,
        path: Annotated[str, "a file, or a directory to search"] = ".",
        glob: Annotated[str, "which files below it, such as src/**/*.{ts,tsx}"] = "*",
        regex: Annotated[bool, r"pattern is a Python regular expression; replacement may use \1"] = False,
        dry_run: bool = True,
        call: Call,
    ) -> dict[str, Any]:
        """Rename or replace a word, variable or pattern across all files below a directory. The default dry run shows
        counts and diffs and changes nothing; dry_run=false applies them, all or nothing."""
        return replace_all(
            self.changes, Search(path, glob, pattern, replacement, regex), call, dry_run=dry_run
        )

    @tool(category=FILES, access="write")
    def undoFileChange(self, path: str, *, call: Call) -> dict[str, Any]:
        """Undo or revert the last edit a tool made to this path; again to redo it. Refused when somebody else has
        changed it since. See also listBackups, restoreFile."""
        change, record = undo(self.changes, path, call)
        result = change_result(change, reading.change_diff(change))
        return {**result, "undone": record.action, "undone_backup_id": record.id}

    @tool(category=FILES, access="write")
    def restoreFile(self, path: str, backup_id: str, *, call: Call) -> dict[str, Any]:
        """Restore an old version of a file: what it held before the change with this backup_id. What it holds now is
        backed up."""
        change = restore(self.changes, find_backup(self.changes, path, backup_id), call)
        return change_result(change, reading.change_diff(change))

    @tool(category=FILES, access="read")
    def listBackups(self, path: str | None = None, limit: int = 50) -> dict[str, Any]:
        """List the old versions that are kept of a file, or of all, newest first."""
        return reading.list_backups(self.changes, path, max(1, limit))

    # --- previews ------------------------------------------------------------------------------------------------

    def preview_patch(self, arguments: dict[str, Any]) -> str:
        """The patch itself."""
        return previews.join_diffs([arguments["patch"]])

    def preview_write(self, arguments: dict[str, Any]) -> str:
        """The new file."""
        return previews.file_diff(arguments["path"], None, arguments["content"])

    def preview_update(self, arguments: dict[str, Any]) -> str:
        """The edit of a file."""
        return previews.preview_edits(self.changes, [Edit(**arguments)], make_preview_call())

    def preview_many(self, arguments: dict[str, Any]) -> str:
        """The edits of each file."""
        edits = convert(arguments["edits"], list[Edit])
        return previews.preview_edits(self.changes, edits, make_preview_call())

    def preview_replacements(self, arguments: dict[str, Any]) -> str:
        """The edits of each file in which something would be replaced."""
        given = {name: value for name, value in arguments.items() if name != "dry_run"}
        everything: dict[str, Any] = {"path": ".", "glob": "*", "regex": False}
        return previews.preview_replace(self.changes, Search(**everything | given), make_preview_call())


def make_preview_call() -> Call:
    """The call of a preview, with the services of the session that asks for it."""
    return Call("", "", {}, services=SERVICES.get())
