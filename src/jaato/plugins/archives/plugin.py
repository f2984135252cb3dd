"""The plugin `archives`: tools that list, extract and create archives."""

from __future__ import annotations

import contextlib
import stat
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from jaato.abc.plugin import Host, Plugin
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call
from jaato.tools.filesystem.errors import FileMissing, explaining
from jaato.tools.host_services import roots_of
from jaato.tools.processes.sandbox_process import (
    NOWHERE,
    Mounts,
    ResourceLimits,
    WorkFailed,
    run_in_sandbox_process,
)
from jaato.tools.tool import tool

FILES = "filesystem"
WORK = "jaato.plugins.archives"
TIME_S = 120.0
MEMORY_BYTES = 1 << 30
ADVICE = "Name some members, or use run with a program such as tar or unzip."
Megabytes = Annotated[int, Meta(ge=1, le=20_000)]
Patterns = Annotated[list[str], Meta(max_length=1_000)]


class ArchivesPlugin(Plugin):
    """Archives from anywhere: what is in them cannot get out of the directory they are extracted to."""

    name: ClassVar[str] = "archives"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.roots = roots_of(host)

    @tool(category=FILES, access="read")
    def archive_list(
        self,
        path: Annotated[str, "zip, tar (gz, bz2, xz, zst) or a single compressed file"],
        members: Annotated[Patterns | None, "only these: names, directories or patterns"] = None,
        limit: Annotated[int, Meta(ge=1, le=2_000)] = 500,
        max_mb: Annotated[Megabytes, "how much may have to be unpacked to see it all"] = 4_000,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """List what is in an archive (zip, tar, tar.gz, …) without extracting it: names, sizes, links, and members that
        are unsafe to extract."""
        with self.roots.open_file(path) as file:
            order = {
                "fd": file.fileno(),
                "path": path,
                "members": members,
                "limit": limit,
                "max_bytes": max_mb << 20,
            }
            return self._work("extract:listing", order, call, file.fileno(), 1 << 20)

    @tool(category=FILES, access="write")
    def archive_extract(
        self,
        path: Annotated[str, "zip, tar (gz, bz2, xz, zst) or a single compressed file"],
        destination: Annotated[str, "directory to extract to; made when it is missing"],
        members: Annotated[Patterns | None, "only these: names, directories or patterns"] = None,
        overwrite: Annotated[bool, "replace files that exist, without a backup"] = False,
        max_mb: Annotated[Megabytes, "how much it may unpack to"] = 2_000,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Extract an archive (unzip, untar, decompress) into a directory. Members that would leave it or overwrite a file
        are left out and reported. Returns what was written."""
        with self.roots.open_file(path) as file:
            self._check_destination(destination)
            order = {
                "fd": file.fileno(),
                "path": path,
                "members": members,
                "max_bytes": max_mb << 20,
                "roots": [str(root) for root in self.roots.paths],
                "control_files": self.roots.names.more,
                "destination": destination,
                "overwrite": overwrite,
            }
            try:
                places = Mounts(writes=self.roots.paths)
                return self._work("extract:extract", order, call, file.fileno(), max_mb << 20, places)
            finally:
                with contextlib.suppress(FileMissing), self.roots.locate(destination) as place:
                    call.changed.append(FileChange(self.roots.label(place), "modified", directory=True))

    @tool(
        category=FILES,
        access="write",
        examples=({"path": "release.tar.gz", "paths": ["src", "README.md"], "exclude": ["*.pyc"]},),
    )
    def archive_create(
        self,
        path: Annotated[str, "the archive; its name says the format: .zip, .tar, .tar.gz, .tar.xz, …"],
        paths: Annotated[
            list[str], Meta(min_length=1, max_length=1_000, description="files and directories to pack")
        ],
        exclude: Annotated[Patterns | None, "names, directories or patterns to leave out"] = None,
        overwrite: Annotated[bool, "replace an archive that exists"] = False,
        max_mb: Annotated[Megabytes, "how much may be packed"] = 2_000,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Zip, pack or compress files and folders (directories) into an archive (zip, tarball, tar.gz, …). Links are packed
        as links. Returns how much it holds."""
        from jaato.plugins.archives.create import format_for
        from jaato.tools.filesystem.atomic_replace import FileState, open_draft

        kind = format_for(path)
        with self.roots.locate(path, follow=False) as place:
            if self.roots.hides_control(path, place) or place.is_root:
                raise WorkFailed(f"{path!r} is protected. Choose another name.", "path_refused")
            if place.info is not None and not overwrite:
                raise WorkFailed(
                    f"{path!r} exists already. Choose another name, or set overwrite.", "path_refused"
                )
            with explaining(path), open_draft(place, path, place.dir_fd, 0o666) as draft:
                order = {
                    "fd": draft.fd,
                    "format": kind,
                    "paths": paths,
                    "exclude": exclude,
                    "max_bytes": max_mb << 20,
                    "roots": [str(root) for root in self.roots.paths],
                    "control_files": self.roots.names.more,
                }
                places = Mounts(reads=self.roots.paths)
                result = self._work("create:create", order, call, draft.fd, max_mb << 20, places)
                if place.info is None:
                    draft.publish_new()
                else:
                    draft.publish_over(FileState(place.info))
            change: Literal["created", "modified"] = "created" if place.info is None else "modified"
            call.changed.append(FileChange(self.roots.label(place), change))
        return {"path": path, "format": kind, **result}

    def _check_destination(self, destination: str) -> None:
        """Raise before anything is unpacked when the destination cannot be one."""
        self.roots.relative(destination)
        try:
            place = self.roots.locate(destination)
        except FileMissing:
            return  # it is made, with those above it
        with place:
            if self.roots.hides_control(destination, place):
                raise WorkFailed(f"{destination!r} leads by a link to a protected directory.", "path_refused")
            if place.info is not None and not stat.S_ISDIR(place.info.st_mode):
                raise WorkFailed(f"{destination!r} is a file, not a directory. Name another.", "path_refused")

    def _work(
        self,
        entry: str,
        order: dict[str, Any],
        call: Call,
        descriptor: int,
        file_bytes: int,
        places: Mounts = NOWHERE,
    ) -> dict[str, Any]:
        """The work, apart."""
        bounds = ResourceLimits(TIME_S, MEMORY_BYTES, file_bytes + (1 << 20), ADVICE)
        result: dict[str, Any] = run_in_sandbox_process(
            f"{WORK}.{entry}", order, bounds, call.token, [descriptor], places=places
        )
        return result
