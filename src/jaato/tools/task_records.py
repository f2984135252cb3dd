"""Background tasks: calls that go on after the caller got a promise of their result."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

import msgspec

from jaato.abc.plugin import TaskHandle, TaskResult, TaskStatus
from jaato.errors import CancelledException
from jaato.protocol.events import now
from jaato.protocol.ids import new_id
from jaato.tools.call import Outcome

KEPT_CHARS = 1_000_000
"""Characters of output a task keeps; older ones are dropped and counted."""
KEPT_TASKS = 1000
"""Finished tasks that are remembered."""


class RecentText:
    """The newest `most_chars` characters of a text. `start` counts those before them. Not thread-safe."""

    __slots__ = ("_chars", "_most_chars", "_parts", "_skipped", "start")

    def __init__(self, most_chars: int) -> None:
        self._most_chars = most_chars
        self._parts: deque[str] = deque()
        self._skipped = 0
        """How many characters of the first part are dropped: to cut them off would copy the others at each `add`."""
        self._chars = self.start = 0

    def add(self, text: str) -> None:
        """Add text, and drop the oldest beyond the limit."""
        self._parts.append(text)
        self._chars += len(text)
        while (surplus := self._chars - self._most_chars) > 0:
            whole = len(self._parts[0]) - self._skipped
            dropped = min(whole, surplus)
            self._skipped += dropped
            if dropped == whole:
                self._parts.popleft()
                self._skipped = 0
            elif self._skipped > self._most_chars:
                self._parts[0], self._skipped = self._parts[0][self._skipped :], 0
            self._chars -= dropped
            self.start += dropped

    def join(self) -> str:
        """The text that is kept."""
        text = "".join(self._parts)[self._skipped :]
        self._parts, self._skipped = deque([text]), 0
        return text

    def take(self) -> tuple[str, int]:
        """The text that is kept, which is dropped then, and its start."""
        text, start = self.join(), self.start
        self._parts.clear()
        self._chars, self.start = 0, start + len(text)
        return text, start


class OutputLog:
    """The text a task has printed, the newest `KEPT_CHARS` of it; offsets count from the task's start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = RecentText(KEPT_CHARS)

    def write(self, text: str) -> None:
        """Add text."""
        with self._lock:
            self._text.add(text)

    def read(self, offset: int = 0) -> tuple[str, int]:
        """The text from `offset` on (or from the oldest kept), and the offset behind it."""
        with self._lock:
            text, start = self._text.join(), self._text.start
        return text[max(0, offset - start) :], start + len(text)


class BackgroundTask(msgspec.Struct, eq=False):
    """One background task; `cancel` asks it to stop, `done` is set when it has ended."""

    tool: str
    plugin: str
    cancel: Callable[[], object]
    id: str = msgspec.field(default_factory=lambda: new_id("b"))
    call_id: str = ""
    started_at: str = msgspec.field(default_factory=now)
    ended_at: str | None = None
    status: TaskStatus = TaskStatus.RUNNING
    outcome: Outcome | None = None
    output: OutputLog = msgspec.field(default_factory=OutputLog)
    done: threading.Event = msgspec.field(default_factory=threading.Event)

    def finish(self, outcome: Outcome, status: TaskStatus | None = None) -> None:
        """Record how it ended; the first ending counts."""
        if self.done.is_set():
            return
        self.outcome = outcome
        self.status = status or status_of(outcome)
        self.ended_at = now()
        self.done.set()


def status_of(outcome: Outcome) -> TaskStatus:
    """Where a task stands that has ended like this."""
    if outcome.ok:
        return TaskStatus.COMPLETED
    stopped = outcome.problem is not None and outcome.problem.code == CancelledException.code
    return TaskStatus.CANCELLED if stopped else TaskStatus.FAILED


class TaskRecords:
    """The tasks of one session or executor, the oldest finished ones forgotten."""

    def __init__(self) -> None:
        self._tasks: dict[str, BackgroundTask] = {}
        self._lock = threading.Lock()

    def add(self, task: BackgroundTask) -> BackgroundTask:
        """Remember a task."""
        with self._lock:
            self._tasks[task.id] = task
            if len(self._tasks) > KEPT_TASKS:
                for id_ in [id_ for id_, known in self._tasks.items() if known.done.is_set()][:100]:
                    del self._tasks[id_]
        return task

    def get(self, task_id: str) -> BackgroundTask | None:
        """The task of this id."""
        return self._tasks.get(task_id)

    def all(self) -> list[BackgroundTask]:
        """Every task, oldest first."""
        with self._lock:
            return list(self._tasks.values())

    def running(self) -> list[BackgroundTask]:
        """Those that have not ended."""
        return [task for task in self.all() if not task.done.is_set()]


def watch(task: BackgroundTask, future: Future[Any], settle: Callable[[Future[Any]], Outcome]) -> None:
    """Finish the task when its future does."""

    def ended(finished: Future[Any]) -> None:
        status = TaskStatus.CANCELLED if finished.cancelled() else None
        task.finish(Outcome(False) if finished.cancelled() else settle(finished), status)

    future.add_done_callback(ended)


def promise_result(task_id: str, plugin: str, tool: str, threshold_s: float) -> dict[str, Any]:
    """The result of a call that was moved to the background, in the documented keys."""
    return {
        "auto_backgrounded": True,
        "task_id": task_id,
        "plugin_name": plugin,
        "tool_name": tool,
        "threshold_seconds": threshold_s,
        "message": (
            f"Task exceeded {threshold_s:g}s threshold, continuing in background. "
            f"Use task_id '{task_id}' to check status and output."
        ),
    }


class BackgroundCapableMixin:
    """Makes a plugin `BackgroundCapable`: threads, status, results and cancellation are kept here.

    Set `auto_background_s` to {tool name: seconds}, or override `get_auto_background_threshold`. A cancelled task's
    thread cannot be killed; its result is dropped.
    """

    auto_background_s: dict[str, float] = {}

    @property
    def background_tasks(self) -> TaskRecords:
        """The tasks of this plugin."""
        tasks: TaskRecords | None = self.__dict__.get("_background_tasks")
        if tasks is None:
            tasks = self.__dict__.setdefault("_background_tasks", TaskRecords())
        return tasks

    def supports_background(self, tool_name: str) -> bool:
        """Whether the plugin has this tool."""
        return tool_name in self._background_executors()

    def get_auto_background_threshold(self, tool_name: str) -> float | None:
        """Seconds after which a call of this tool continues in the background."""
        return self.auto_background_s.get(tool_name)

    def start_background(self, tool_name: str, args: dict[str, Any]) -> TaskHandle:
        """Run a tool in a thread of its own and return at once."""
        executor = self._background_executors()[tool_name]
        return self.register_running_task(start_thread(lambda: executor(args)), tool_name, args)

    def register_running_task(self, future: Future[Any], tool_name: str, args: dict[str, Any]) -> TaskHandle:
        """Adopt a call that is already running."""
        name = str(getattr(self, "name", type(self).__name__))
        task = BackgroundTask(tool_name, name, future.cancel)
        task.id = f"{name}_{task.id}"
        self.background_tasks.add(task)
        watch(task, future, outcome_of_future)
        return TaskHandle(task.id, name, tool_name, task.started_at)

    def get_status(self, task_id: str) -> TaskStatus:
        """Where the task stands; raises KeyError for an unknown one."""
        return self._task(task_id).status

    def get_result(self, task_id: str) -> TaskResult:
        """The result of the task; raises KeyError for an unknown one."""
        task = self._task(task_id)
        problem = task.outcome.problem if task.outcome else None
        value = task.outcome.value if task.outcome and task.outcome.ok else None
        return TaskResult(task.id, task.status, value, problem.message if problem else None)

    def cancel(self, task_id: str) -> bool:
        """Stop a task; whether it was still running."""
        task = self._task(task_id)
        if task.done.is_set():
            return False
        task.cancel()
        task.finish(Outcome(False), TaskStatus.CANCELLED)
        return True

    def _task(self, task_id: str) -> BackgroundTask:
        task = self.background_tasks.get(task_id)
        if task is None:
            raise KeyError(f"No background task {task_id!r}")
        return task

    def _background_executors(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        executors: dict[str, Callable[[dict[str, Any]], Any]] = self.get_executors()  # type: ignore[attr-defined]  # the class it is mixed into has it
        return executors


def outcome_of_future(future: Future[Any]) -> Outcome:
    """The outcome of a finished future of a plain executor."""
    from jaato.tools.pipeline import failure_outcome, success_outcome

    error = future.exception()
    return failure_outcome(error) if error is not None else success_outcome(future.result(), None)


def start_thread(work: Callable[[], Any]) -> Future[Any]:
    """Run work in a daemon thread: one that never returns must not keep the program from ending."""
    future: Future[Any] = Future()

    def body() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 whatever a tool raises belongs to its caller
            future.set_exception(error)

    threading.Thread(target=body, name="jaato-tool", daemon=True).start()
    return future


def stop_after(seconds: float | None, stop: Callable[[], object]) -> None:
    """Call this after so many seconds; for None never."""
    if seconds is not None:
        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()


def wait_for_outcome(future: Future[Any], seconds: float) -> tuple[bool, Any]:
    """(True, value) when the future ends in time, (False, None) when not; raises what it raised."""
    try:
        return True, future.result(seconds)
    except FutureTimeout:
        if future.done():
            return True, future.result()  # it ended just now, or raised a TimeoutError of its own
        return False, None
    except CancelledError:
        return False, None
