"""The network of a session: one namespace that its commands enter, and the proxy that serves it."""

from __future__ import annotations

import contextvars
import os
import socket
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from jaato.tools.processes.loop_thread import LoopThread

# Every session has `Networks`, and few a network: what makes one is imported where it is made.
if TYPE_CHECKING:
    from jaato.tools.network.pinned_connect import CheckedResolver
    from jaato.tools.network.proxy import NetworkGrant, Proxy
    from jaato.tools.processes.launcher import WardenClient

CLOSE_WITHIN_S = 10.0


class ProxyLoop:
    """The event loop thread of all proxies of this process; it runs while any of them is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._beside: LoopThread | None = None
        self._users = 0
        self._owner = 0

    def acquire(self) -> LoopThread:
        """The running loop; each call is followed by one of `release`."""
        with self._lock:
            if self._beside is None or self._owner != os.getpid():
                self._beside, self._users, self._owner = LoopThread("jaato-proxy"), 0, os.getpid()
            self._users += 1
            return self._beside

    def release(self) -> None:
        """End the thread with its last user."""
        with self._lock:
            if self._owner != os.getpid():
                return
            self._users -= 1
            if self._users == 0 and self._beside is not None:
                self._beside.close()
                self._beside = None


LOOP = ProxyLoop()


class SessionNetwork:
    """The descriptors of a session's namespaces, and its proxy. Safe from any thread; `close` releases everything."""

    def __init__(
        self, descriptors: Sequence[int], dialer: CheckedResolver, environ: Mapping[str, str]
    ) -> None:
        from jaato.tools.network.proxy import Proxy

        *namespaces, listener = descriptors
        self.owner = os.getpid()
        self._namespaces = tuple(namespaces)
        self._listener = socket.socket(fileno=listener)
        self._lock = threading.Lock()
        self._proxy: Proxy | None = None
        beside = LOOP.acquire()
        try:
            self._listener.setblocking(False)
            proxy = Proxy(self._listener, dialer, environ)
            begun = contextvars.Context().run(
                beside.start, proxy.open()
            )  # else the context of the first call would live as long
            begun.result(CLOSE_WITHIN_S)
        except BaseException:
            LOOP.release()
            self._forget()
            raise
        self._beside = beside
        self._proxy = proxy

    @contextmanager
    def open_namespaces(self) -> Iterator[tuple[int, ...]]:
        """The descriptors of the user and network namespace, which stay open in the context; none once it is closed."""
        with self._lock:
            yield self._namespaces

    def grant(self, domains: Iterable[str]) -> NetworkGrant:
        """Open these hosts to one call. Raises `DomainRefused` for a pattern that names none."""
        proxy = self._proxy
        if proxy is None:
            raise RuntimeError("The network of this session is closed.")
        return proxy.grants.open(domains)

    def close(self) -> None:
        """End the proxy with all its connections, and close the namespaces; may be called twice."""
        with self._lock:
            proxy, self._proxy = self._proxy, None
        if proxy is not None and self.owner == os.getpid():
            wait_for(self._beside, proxy.close())
            LOOP.release()
        self._forget()

    def _forget(self) -> None:
        with self._lock:
            namespaces, self._namespaces = self._namespaces, ()
        for fd in namespaces:
            os.close(fd)
        self._listener.close()


def wait_for(beside: LoopThread, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the loop, with a timeout."""
    try:
        beside.start(work).result(CLOSE_WITHIN_S)
    except FutureTimeout:
        pass  # what is left ends with the loop


class Networks:
    """The networks of a sandbox's sessions, each made when a confined command first needs it."""

    def __init__(self, environ: Mapping[str, str], allow_hosts: Iterable[str]) -> None:
        self._environ = environ
        self._allow_hosts = tuple(allow_hosts)
        self._networks: dict[str, SessionNetwork] = {}
        self._lock = threading.Lock()
        self._final = False
        self.refusal = ""
        """Why this machine has no shared network for the commands of a session; empty if it has one."""

    async def ensure(self, session_id: str, launcher: WardenClient | None) -> SessionNetwork | None:
        """The network of a session, created by the warden of this launcher on first use (lazy); None if this machine
        has none."""
        known = self._find(session_id)
        if known is not None or self._final:
            return known
        return await anyio.to_thread.run_sync(self._make, session_id, launcher)

    def end(self, session_id: str) -> None:
        """Close the network of a session that is over."""
        with self._lock:
            network = self._networks.pop(session_id, None)
        if network is not None:
            network.close()

    def abandon(self) -> None:
        """Close every network of a sandbox that was garbage-collected, in a thread of its own."""
        if self._networks:
            threading.Thread(target=self.close, name="jaato-network-end", daemon=True).start()

    def close(self) -> None:
        """Close every network."""
        for session_id in list(self._networks):
            self.end(session_id)

    def _find(self, session_id: str) -> SessionNetwork | None:
        network = self._networks.get(session_id)
        return network if network is not None and network.owner == os.getpid() else None

    def _make(self, session_id: str, launcher: WardenClient | None) -> SessionNetwork | None:
        from jaato.tools.network.addresses import AllowedHosts
        from jaato.tools.network.pinned_connect import CheckedResolver
        from jaato.tools.processes.warden.namespaces import NetworkRefused

        with self._lock:
            known = self._find(session_id)
            if known is not None:
                return known
            forked = self._networks.pop(session_id, None)
            if forked is not None:
                forked.close()
            dialer = CheckedResolver(AllowedHosts.of(self._allow_hosts))
            try:
                descriptors = self._descriptors(launcher)
            except OSError as error:
                self._final = isinstance(error, NetworkRefused)
                self.refusal = error.strerror or str(error)
                return None
            network = SessionNetwork(descriptors, dialer, self._environ)
            self._networks[session_id], self.refusal = network, ""
            return network

    def _descriptors(self, launcher: WardenClient | None) -> list[int]:
        if launcher is not None:
            return launcher.network()
        from jaato.tools.processes.launcher import WardenClient

        own = WardenClient()
        try:
            return own.network()
        finally:
            own.close()
