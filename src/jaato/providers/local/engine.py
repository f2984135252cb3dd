"""The inference engine of the embedded model: llama.cpp inside the process, and the one thread that may touch it."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import queue
import secrets
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from jaato.errors import ContextOverflow, InvalidRequest, ModelNotFound, ProviderError, ServerFault
from jaato.providers.local.prompt_cache import SavedStates
from jaato.settings import set_process_variables

MAX_THREADS = 8
SAMPLES = 7
PAUSE_S = 0.02
LOAD = Path("/proc/loadavg")


def free_processors(load: Path = LOAD) -> int:
    """The processors this process may use that are idle now; at least one, at most `MAX_THREADS`.

    Takes a seventh of a second. Where the load is unknown, all of them count as free.
    """
    samples: list[int] = []
    for _ in range(SAMPLES):
        samples.append(busy_threads(load))
        time.sleep(PAUSE_S)
    return max(1, min(usable_processors() - int(statistics.median(samples)), MAX_THREADS))


def busy_threads(load: Path) -> int:
    """The threads that are computing at this moment, without this one; `load` is the kernel's own report."""
    try:
        running = int(load.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0
    return max(0, running - 1)


def usable_processors() -> int:
    """The processors this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


TIMEOUT_S = 60.0


class ControlSocket:
    """A folder only this user can enter, with the engine's Unix socket, which wants a random key.

    The engine opens a listener whether it is wanted or not. On leaving, folder and socket are removed: from
    then on nothing can connect, and there is nothing to guard.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jaato-"))
        self.socket_path = self.folder / "engine.sock"
        self.key = secrets.token_hex(32)

    def __enter__(self) -> ControlSocket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def slot(self, action: str, name: str) -> bool:
        """Save or restore the prompt state under a file name in the folder; returns whether that succeeded."""
        connection = http.client.HTTPConnection("engine", timeout=TIMEOUT_S)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(TIMEOUT_S)
        try:
            connection.sock.connect(str(self.socket_path))
            connection.request(
                "POST",
                f"/slots/0?action={action}",
                json.dumps({"filename": name}),
                {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
            )
            response = connection.getresponse()
            response.read()
            return response.status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


BATCH_TOKENS = 64
"""Tokens read between two events: about a second, so that a cancelled turn ends within one. The engine reads at most
one more batch after it."""
PROMPT_CACHE_MB = 512
REPLY_RESERVE_TOKENS = 256
BEGUN = "-begun"
"""Marks the state of a prompt that is read only in part."""

Event = dict[str, Any]


@dataclass(slots=True, eq=False)
class Job:
    """One generation: the request body, where its events go, and whether it is still wanted.

    `on_event` is called in the engine's thread for every event; `on_end` once, with the failure or None.
    """

    body: dict[str, Any]
    fixed: list[dict[str, str]]
    on_event: Callable[[Event], None]
    on_end: Callable[[BaseException | None], None]
    stop: threading.Event = field(default_factory=threading.Event)


class Engine:
    """A model loaded on first use. Jobs run one after the other; closing stops the running one."""

    def __init__(
        self, model_path: Path, *, context_tokens: int, threads: int | None, states: SavedStates | None
    ) -> None:
        self._path = model_path
        self._context_tokens = context_tokens
        self._threads = threads
        self._states = states
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running: Job | None = None
        self._closed = False
        self._server: Any = None

    def submit(self, job: Job) -> None:
        """Put a job in the queue; starts the thread when there is none."""
        if self._closed:
            raise ServerFault("The embedded model was closed.", provider="local")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="jaato-local-model", daemon=True)
            self._thread.start()
            atexit.register(self.close)  # a thread inside the engine when the interpreter goes would abort it
        self._jobs.put(job)

    def close(self) -> None:
        """Stop the running job, let go of the model and wait for the thread. Blocks for at most a batch of
        tokens."""
        self._closed = True
        running = self._running
        if running is not None:
            running.stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join()
            atexit.unregister(self.close)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._running = job
            failure: BaseException | None = None
            try:
                if not (job.stop.is_set() or self._closed):
                    self._generate(job)
            except Exception as error:  # noqa: BLE001 the thread outlives any job; the waiting turn gets the error
                failure = error
            self._running = None
            job.on_end(failure)
        self._server = None

    def _generate(self, job: Job) -> None:
        if self._server is None:
            self._server = self._load(job)
        if job.stop.is_set():
            return
        failures: list[ProviderError] = []

        def on_event(event: Event) -> bool:
            if job.stop.is_set():
                return True
            if "error" in event:
                failures.append(engine_error(event["error"]))
                return True
            total = event.get("prompt_progress", {}).get("total", 0)
            if total > self._context_tokens - REPLY_RESERVE_TOKENS:
                failures.append(context_overflow(total, self._context_tokens))
                return True
            job.on_event(event)
            return job.stop.is_set()

        self._server.handle_chat_completions(job.body, on_event)
        if failures:
            raise failures[0]

    def _load(self, job: Job) -> Any:
        """Load the model, and bring in the saved state of the fixed prompt or make it."""
        set_process_variables({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"})
        xllamacpp = import_engine()
        threads = self._threads or free_processors()
        with ControlSocket() as control:
            params = xllamacpp.CommonParams()
            params.model.path = str(self._path)
            params.n_ctx = self._context_tokens
            params.n_parallel = 1
            params.n_batch = params.n_ubatch = BATCH_TOKENS
            params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
            params.n_gpu_layers = 0
            params.fit_params = False
            params.warmup = False
            params.verbosity = -1
            params.cache_ram_mib = PROMPT_CACHE_MB
            params.ui = False
            params.hostnames = [str(control.socket_path)]
            params.api_keys = [control.key]
            params.slot_save_path = f"{control.folder}{os.sep}"
            try:
                server = xllamacpp.Server(params)
            except RuntimeError:
                raise ModelNotFound(
                    f"The engine cannot load {self._path}: the file is damaged or its architecture unknown. "
                    "Remove it to have it fetched again, or name another GGUF file in JAATO_LOCAL_MODEL.",
                    provider="local",
                ) from None
            if self._states is not None and job.fixed:
                self._warm(server, control, job)
        return server

    def _warm(self, server: Any, control: ControlSocket, job: Job) -> None:
        """Restore the fixed prompt from disk; when it is not there, read it and save it for the next process. Reading that
        is stopped is saved as far as it came, and continued from there."""
        assert self._states is not None
        key = self._states.key(job.fixed, self._context_tokens)
        if self._restore(control, key):
            return
        self._restore(control, key + BEGUN)
        done: list[bool] = []

        def on_event(event: Event) -> bool:
            if "prompt_progress" in event:
                job.on_event(event)
            elif "timings" in event:
                done.append(True)
            return job.stop.is_set() or "error" in event

        body = {
            "messages": job.fixed,
            "max_tokens": 1,
            "stream": True,
            "cache_prompt": True,
            "return_progress": True,
        }
        server.handle_chat_completions(body, on_event)
        name = "state.bin"
        if (done or job.stop.is_set()) and control.slot("save", name):
            self._states.keep(key if done else key + BEGUN, control.folder / name)
        if done:
            self._states.remove(key + BEGUN)

    def _restore(self, control: ControlSocket, key: str) -> bool:
        """Restore the state of this key; returns whether there is one and it is valid."""
        assert self._states is not None
        return self._states.fetch(key, control.folder / key) and control.slot("restore", key)


class EngineShare:
    """A share of the engine of a model: all shares of one process use one engine, as each has the model in memory. It is
    closed with its last share."""

    _shared: ClassVar[dict[tuple[Any, ...], tuple[Engine, int]]] = {}
    _changing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self, model_path: Path, *, context_tokens: int, threads: int | None, states: SavedStates | None
    ) -> None:
        info = model_path.stat()
        folder = None if states is None else states.folder
        self._key = (info.st_dev, info.st_ino, info.st_mtime_ns, context_tokens, threads, folder)
        self._jobs: set[Job] = set()
        self._closed = False
        with self._changing:
            engine, shares = self._shared.get(self._key, (None, 0))
            self._engine = engine or Engine(
                model_path, context_tokens=context_tokens, threads=threads, states=states
            )
            self._shared[self._key] = self._engine, shares + 1

    @property
    def busy(self) -> bool:
        """Whether a generation of this share waits or is under way."""
        return bool(self._jobs)

    def submit(self, job: Job) -> None:
        """Put a job in the queue. Raises `ServerFault` after `close`."""
        end = job.on_end

        def on_end(failure: BaseException | None) -> None:
            self._jobs.discard(job)
            end(failure)

        job.on_end = on_end
        with self._changing:  # shares are used by any threads, and an engine has one
            if self._closed:
                raise ServerFault("The embedded model was closed.", provider="local")
            self._jobs.add(job)
            self._engine.submit(job)

    def close(self) -> None:
        """Stop the jobs of this share, and close the engine with the last one. Blocks for at most a batch of tokens."""
        with self._changing:
            if self._closed:
                return
            self._closed = True
            for job in self._jobs.copy():
                job.stop.set()
            engine, shares = self._shared.pop(self._key)
            if shares > 1:
                self._shared[self._key] = engine, shares - 1
                return
        engine.close()


def import_engine() -> Any:
    """The engine's module; raises `ModelNotFound` naming the extra when it is not installed."""
    try:
        import xllamacpp
    except ImportError as error:
        raise ModelNotFound(
            f"The embedded model needs its engine ({error}): pip install 'jaato[local]'.", provider="local"
        ) from None
    return xllamacpp


def engine_error(error: dict[str, Any]) -> ProviderError:
    """The engine's own error as ours."""
    message = str(error.get("message", "unknown error"))
    if error.get("type") == "exceed_context_size_error":
        return context_overflow(int(error.get("n_prompt_tokens", 0)), int(error.get("n_ctx", 0)))
    kind = InvalidRequest if error.get("code") == 400 else ServerFault
    return kind(f"The embedded model's engine refused: {message}", provider="local", status=error.get("code"))


def context_overflow(tokens: int, limit: int) -> ContextOverflow:
    """The conversation is too long for the model."""
    error = ContextOverflow(
        f"The conversation has {tokens} tokens; the embedded model reads {limit}, "
        f"{REPLY_RESERVE_TOKENS} of them for its reply.",
        provider="local",
    )
    error.limit, error.tokens = limit or None, tokens or None
    return error
