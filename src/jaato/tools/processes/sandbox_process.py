"""Run untrusted work in a sandbox process of its own: bounded in time and memory, ended with its call."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jaato.errors import JaatoError, ToolError

if TYPE_CHECKING:
    from pathlib import Path

    from jaato.protocol.messages import Problem
    from jaato.tools.cancel import CancelToken

BOOT = """
import json, sys
order = json.loads(sys.stdin.buffer.readline())
sys.path[:] = order["path"]
from jaato.tools.processes.sandbox_process import serve
serve(order)
"""
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
"""The environment of the work: no keys, because it reads untrusted data."""
MAX_ANSWER_BYTES = 64 << 20


class WorkFailed(ToolError):
    """The work could not be done; `problem` carries the code it failed with, if it has one of its own."""

    code = "work_failed"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self._code = code or self.code

    @property
    def problem(self) -> Problem:
        """The failure as it is kept."""
        from jaato.protocol.messages import Problem

        return Problem(code=self._code, message=str(self))


class Mounts(NamedTuple):
    """The file system that a piece of work reaches, beside the descriptors passed to it: directories it `reads`
    or `writes`, and the one of a descriptor, `directory`, which it works in and may write."""

    reads: Sequence[Path] = ()
    writes: Sequence[Path] = ()
    directory: int | None = None


NOWHERE = Mounts()


class ResourceLimits(NamedTuple):
    """The resource limits of a piece of work: `time_s` of the clock and of the processor, `memory_bytes`, and
    `file_bytes`, the size a single file it writes may have. `query_s` is what of the time a query or an expression may
    take, where the work sets a `QueryTimer`. `advice` tells what to do when that is too little."""

    time_s: float = 20.0
    memory_bytes: int = 1 << 30
    file_bytes: int = 1 << 30
    advice: str = "Ask for less."
    query_s: float = 20.0


class QueryTimer:
    """Ends the process of the work when the code inside `with` has taken so long in total: by a signal, because
    nothing else interrupts a step of an SQL interpreter or a pattern."""

    def __init__(self, query_s: float) -> None:
        self._left_s = query_s

    def __enter__(self) -> None:
        import signal

        signal.setitimer(signal.ITIMER_REAL, self._left_s)

    def __exit__(self, *_: object) -> None:
        import signal

        self._left_s = max(signal.setitimer(signal.ITIMER_REAL, 0)[0], 1e-6)


def run_in_sandbox_process(
    entry: str,
    request: dict[str, Any],
    bounds: ResourceLimits,
    token: CancelToken,
    descriptors: Sequence[int] = (),
    data: bytes | None = None,
    places: Mounts = NOWHERE,
) -> Any:
    """Call the function at `module:name` with the request in a new process, and return its result; both are JSON.

    `descriptors` are open there under the same numbers; `data`, where there is any, is the function's second
    argument. Where there is a sandbox the process reaches nothing but these, `places` and programs, and no network. Blocks;
    the process has ended when this returns.
    Raises `WorkFailed` with the message of a `ToolError` of the work, or saying which bound was reached.
    """
    import json
    import subprocess

    from jaato.tools.processes.sandbox.worker_sandbox import subprocess_code, worker_sandbox

    limits = [bounds.time_s, bounds.memory_bytes, bounds.file_bytes]
    path = [place for place in sys.path if os.path.isabs(place)]  # never the directory of the process
    order = {"path": path, "entry": entry, "request": request, "limits": limits, "data": data is not None}
    handed = [*descriptors, *(() if places.directory is None else (places.directory,))]
    with worker_sandbox(sys.executable, descriptors, **places._asdict()) as start:
        worker = subprocess.Popen(
            [*start.prefix, sys.executable, "-I", "-S", "-X", "utf8", "-c", BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[*handed, *start.descriptors],
            start_new_session=True,
            cwd="/",
            env=ENVIRONMENT,
        )
    if places.directory is not None:
        order["directory"] = [places.directory, bool(start.prefix)]
    with worker:
        forget = token.on_cancel(worker.kill)
        try:
            request_line = json.dumps(order).encode() + b"\n" + (data or b"")
            out, problem = worker.communicate(request_line, timeout=bounds.time_s)
        except subprocess.TimeoutExpired:
            raise too_slow(bounds) from None
        finally:
            forget()
            if worker.poll() is None:
                worker.kill()
    token.raise_if_cancelled()
    if worker.returncode == 0:
        return parse_answer(json.loads(out))
    last_line = problem.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
    raise explain_end(subprocess_code(worker.returncode, start.prefix), last_line, bounds)


async def run_in_sandbox_process_async(
    entry: str, request: dict[str, Any], bounds: ResourceLimits, data: bytes | None = None
) -> Any:
    """`run_in_sandbox_process` for a task: cancelling the task ends the process before this is left. Raises `WorkFailed`."""
    import anyio
    import anyio.lowlevel
    import anyio.to_thread

    from jaato.tools.cancel import CancelToken

    token = CancelToken()

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            token.cancel()

    found: Any = None
    failure: JaatoError | OSError | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        with anyio.CancelScope(shield=True):
            try:
                found = await anyio.to_thread.run_sync(
                    run_in_sandbox_process, entry, request, bounds, token, (), data
                )
            except (JaatoError, OSError) as error:  # outside the group it would come as a group of errors
                failure = error
        group.cancel_scope.cancel()
    await anyio.lowlevel.checkpoint()  # raises here if the task was cancelled
    if failure is not None:
        raise failure
    return found


def parse_answer(answer: dict[str, Any]) -> Any:
    """The value of an answer. Raises `WorkFailed` for one that says what went wrong."""
    if "message" in answer:
        raise WorkFailed(answer["message"], answer["code"])
    return answer["value"]


def too_slow(bounds: ResourceLimits) -> WorkFailed:
    """The error for work that took too long."""
    return WorkFailed(f"This took more than {bounds.time_s:g} s and was stopped. {bounds.advice}", "too_slow")


def explain_end(status: int, last_line: str, bounds: ResourceLimits) -> WorkFailed:
    """Why a process gave no answer: `status` as subprocess reports it, and `last_line` of stderr."""
    import signal

    if status == -signal.SIGALRM:
        return WorkFailed(
            f"The query took more than {bounds.query_s:g} s and was stopped. {bounds.advice}", "too_slow"
        )
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return too_slow(bounds)
    if "MemoryError" in last_line or status in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
        size = bounds.memory_bytes >> 20
        return WorkFailed(f"This needs more than {size} MB of memory. {bounds.advice}", "too_large")
    if status == -signal.SIGXFSZ:
        return WorkFailed(f"This writes too large a file. {bounds.advice}", "too_large")
    return WorkFailed(f"The work ended with status {status}: {last_line[:300]}. {bounds.advice}")


def serve(order: dict[str, Any]) -> None:
    """In the new process: limit it, do the work, write the answer to standard output."""
    import importlib
    import json

    limit(*order["limits"])
    if "directory" in order:
        enter(*order["directory"])
    module, _, name = order["entry"].partition(":")
    work: Callable[..., Any] = getattr(importlib.import_module(module), name)
    try:
        given = [sys.stdin.buffer.read()] if order["data"] else []
        answer = {"value": work(order["request"], *given)}
    except ToolError as error:
        answer = {"message": str(error), "code": error.code}
    except (MemoryError, RecursionError) as error:
        kind = "deeply nested" if isinstance(error, RecursionError) else "large"
        answer = {"message": f"This is too {kind} to be worked on. Ask for less of it.", "code": "too_large"}
    text = json.dumps(answer, ensure_ascii=True).encode()
    if len(text) > MAX_ANSWER_BYTES:
        text = json.dumps({"message": "The answer is too large. Ask for less.", "code": "too_large"}).encode()
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    os._exit(0)  # skips the destruction of a large value


def enter(directory: int, is_entered: bool) -> None:
    """Work in a directory, and keep no descriptor of it: one leads out of every sandbox."""
    if not is_entered:
        os.fchdir(directory)
    os.close(directory)


def limit(time_s: float, memory_bytes: int, file_bytes: int) -> None:
    """Bound this process for good; where the system has no such bound, the others hold."""
    import math
    import resource

    seconds = math.ceil(time_s)
    for kind, wanted in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(kind, (most, hard))
        except (ValueError, OSError):
            continue
