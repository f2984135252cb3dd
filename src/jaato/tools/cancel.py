"""Cancellation token that threads and tasks share: poll it, wait on it, or register a callback."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jaato.errors import CancelledException


class CancelToken:
    """Thread-safe cancellation signal; a child is cancelled with its parent, never the other way."""

    __slots__ = ("_callbacks", "_cancelled", "_event", "_lock", "parent")

    def __init__(self, parent: CancelToken | None = None) -> None:
        self._cancelled = False
        self._event: threading.Event | None = None
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        self.parent = parent
        if parent is not None:
            parent.on_cancel(self.cancel)

    @property
    def is_cancelled(self) -> bool:
        """Whether someone asked to stop."""
        return self._cancelled

    def cancel(self) -> None:
        """Ask to stop: wakes all waiters and runs the callbacks once, in order; later calls do nothing."""
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            if self._event is not None:
                self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        failure: Exception | None = None
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 one bad callback must not keep the others from hearing
                failure = failure or error
        if failure is not None:
            raise failure

    def wait(self, timeout: float | None = None) -> bool:
        """Block until cancelled or until `timeout` seconds have passed; tells whether it is cancelled."""
        with self._lock:
            if self._cancelled:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout)

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run `callback` on cancellation, at once if that has been; returns a function that forgets it again."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def detach(self) -> None:
        """Stop listening to the parent, when the work this token stands for has ended."""
        if self.parent is not None:
            self.parent._forget(self.cancel)  # noqa: SLF001 the same class

    def raise_if_cancelled(self) -> None:
        """Raise `CancelledException` if someone asked to stop."""
        if self._cancelled:
            raise CancelledException("Cancelled on request.")
