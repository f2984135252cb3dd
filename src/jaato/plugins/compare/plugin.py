"""`diff_files` and `checksum`."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from jaato.abc.plugin import Host, Plugin
from jaato.errors import InvalidArguments, ToolError
from jaato.tools.apart import Bounds, WorkFailed, work_apart
from jaato.tools.call import Call, Output
from jaato.tools.reach import roots_of
from jaato.tools.tool import tool

FILES = "filesystem"
MAX_DIFF_BYTES = 32 << 20
CHUNK_BYTES = 1 << 20
BOUNDS = Bounds(20.0, 2 << 30, 1 << 20, "Compare smaller files, or use run with cmp.")
Algorithm = Literal["sha256", "sha512", "sha1", "md5", "blake2b"]


class ComparePlugin(Plugin):
    """Files held against each other, or against what they should be."""

    name: ClassVar[str] = "compare"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.roots = roots_of(host)

    @tool(category=FILES, access="read", examples=({"path": "old.txt", "other_path": "new.txt"},))
    def diff_files(
        self,
        path: Annotated[str, "the old file"],
        other_path: Annotated[str | None, "the new file"] = None,
        text: Annotated[str | None, "instead: what the file is compared with"] = None,
        context: Annotated[int, Meta(ge=0, le=100)] = 3,
        ignore_whitespace: bool = False,
        max_lines: Annotated[int, Meta(ge=1, le=100_000)] = 2_000,
        *,
        call: Call,
    ) -> Output:
        """Compare two text files, or a file with a text. Returns a unified diff from the first to the second, which
        apply_patch takes, and how many lines differ."""
        if (other_path is None) == (text is None):
            raise InvalidArguments("Give either other_path or text.")
        with self.roots.open_file(path) as old:
            if other_path is None:
                return self._diff(
                    path, path, old.fileno(), None, text, context, ignore_whitespace, max_lines, call
                )
            with self.roots.open_file(other_path) as new:
                return self._diff(
                    path,
                    other_path,
                    old.fileno(),
                    new.fileno(),
                    None,
                    context,
                    ignore_whitespace,
                    max_lines,
                    call,
                )

    def _diff(
        self,
        path: str,
        other: str,
        old: int,
        new: int | None,
        text: str | None,
        context: int,
        ignore_whitespace: bool,
        max_lines: int,
        call: Call,
    ) -> Output:
        """The comparison, apart."""
        order = {
            "names": [path, other],
            "old": old,
            "new": new,
            "text": text,
            "context": context,
            "ignore_whitespace": ignore_whitespace,
            "max_lines": max_lines,
            "max_bytes": MAX_DIFF_BYTES,
        }
        handed = [old] if new is None else [old, new]
        said: dict[str, Any] = work_apart(
            "jaato.plugins.compare.lines:compare", order, BOUNDS, call.token, handed
        )
        diff = said.pop("diff")
        return Output(text=diff + said["summary"], structured=said)

    @tool(category=FILES, access="read")
    def checksum(
        self,
        paths: Annotated[list[str], Meta(min_length=1, max_length=500)],
        algorithm: Algorithm = "sha256",
        expected: Annotated[str | None, "the digest one file should have"] = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Compute the checksum or hash (SHA256, SHA512, SHA1, MD5, BLAKE2b) of files of any size, to verify a download or see
        which are identical. Returns digest and size of each."""
        if expected is not None and len(paths) != 1:
            raise InvalidArguments("expected goes with one path.")
        wanted = None if expected is None else digest_of(expected, algorithm)
        files: list[dict[str, Any]] = []
        for path in paths:
            try:
                files.append({"path": path, **self._digest(path, algorithm, call)})
            except ToolError as error:
                if len(paths) == 1:
                    raise
                files.append({"path": path, "problem": str(error)})
        said: dict[str, Any] = {"algorithm": algorithm, "files": files}
        digests = [file["digest"] for file in files if "digest" in file]
        alike = [
            [file["path"] for file in files if file.get("digest") == digest]
            for digest in dict.fromkeys(digests)
            if digests.count(digest) > 1
        ]
        if alike:
            said["identical"] = alike
        if wanted is not None:
            said["matches"] = wanted == digests[0]
        return said

    def _digest(self, path: str, algorithm: Algorithm, call: Call) -> dict[str, Any]:
        """Digest and size of one file."""
        digest = hashlib.new(algorithm, usedforsecurity=False)
        size = 0
        with self.roots.open_file(path) as file:
            while True:
                call.token.raise_if_cancelled()
                try:
                    piece = file.read(CHUNK_BYTES)
                except OSError as error:
                    raise WorkFailed(f"{path!r} cannot be read: {error.strerror}.", "file_failed") from None
                if not piece:
                    return {"digest": digest.hexdigest(), "size_bytes": size}
                digest.update(piece)
                size += len(piece)


def digest_of(expected: str, algorithm: Algorithm) -> str:
    """The digest in what a page or a sums file says: alone, after `sha256:`, or before the file's name.

    Raises `InvalidArguments` for what cannot be a digest of this algorithm.
    """
    word = (expected.split() or [""])[0].lower()
    named, _, rest = word.rpartition(":")
    length = 2 * hashlib.new(algorithm, usedforsecurity=False).digest_size
    if len(rest) != length or set(rest) - set("0123456789abcdef") or named not in ("", algorithm):
        raise InvalidArguments(
            f"expected is no {algorithm} digest: that has {length} hexadecimal digits, and this {len(rest)} characters"
            f"{f' of {named[:20]}' if named else ''}. Choose the algorithm it was made with."
        )
    return rest
