"""The sandbox of a workspace: makes the confinement that a process is started with from its access."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jaato.abc.plugin import Host
from jaato.errors import ToolError
from jaato.protocol.specs import SandboxAccess, SandboxProfile
from jaato.settings import home_of, load
from jaato.tools.filesystem.atomic import is_below
from jaato.tools.filesystem.control_files import STANDARD, ControlNames
from jaato.tools.permissions.access import FULL, READ_ONLY
from jaato.tools.processes.sandbox.cleanup import ControlFileGuard, QuarantinedFile, WriteWatch
from jaato.tools.processes.sandbox.network_namespace import Networks, SessionNetwork
from jaato.tools.processes.sandbox.protected_paths import ProtectedPaths

# Every session has a sandbox, and few confine a process: what that takes is imported by the methods that do it.
if TYPE_CHECKING:
    from jaato.tools.network.proxy import NetworkGrant
    from jaato.tools.processes.launcher import WardenClient
    from jaato.tools.processes.sandbox.backends import Backend, BackendChoice, Bubblewrap
    from jaato.tools.processes.sandbox.mount_plan import MountPlan
    from jaato.tools.processes.sandbox.temporary import PrivateTmp


class SandboxUnavailable(ToolError):
    """No back end here enforces the profile in full."""

    code = "sandbox_unavailable"


class Confinement(msgspec.Struct, frozen=True):
    """How a process is confined: `prefix` in front of its command line, and its environment.

    The back end `landlock` has no program of its own: `operations` are the mounts that the warden makes, (kind, source,
    target), and `writable` the paths that may be changed then. `backend` is empty without a sandbox.
    """

    access: SandboxAccess
    backend: str = ""
    prefix: tuple[str, ...] = ()
    operations: tuple[tuple[str, str, str], ...] = ()
    writable: tuple[str, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    control_guard: ControlFileGuard | None = None
    watch: WriteWatch | None = None
    """The watch for control files, finished when the process has ended."""
    network: SessionNetwork | None = None
    """The network of the session, which the warden joins before the start; without one the process has its own loopback."""
    grant: NetworkGrant | None = None
    offline: str = ""
    """Why the hosts that were granted cannot be reached; empty where they can, or none were."""
    again: Callable[[], Awaitable[Confinement]] | None = None
    """The same access as the machine is then, for another start."""

    def request(self) -> dict[str, Any] | None:
        """The confinement as a request to the warden; None for a process without a sandbox."""
        if not self.backend:
            return None
        return {
            "backend": self.backend,
            "prefix": [os.fsencode(word) for word in self.prefix],
            "operations": list(self.operations),
            "writable": list(self.writable),
            "joined": self.network is not None,
        }

    @contextmanager
    def open_namespaces(self) -> Iterator[tuple[int, ...]]:
        """The descriptors of the namespaces that the process enters, open in the context."""
        if self.network is None:
            yield ()
            return
        with self.network.open_namespaces() as descriptors:
            yield descriptors

    @property
    def refused(self) -> list[str]:
        """The hosts that the process asked for and was not connected to, as `host:port`."""
        return self.grant.refused if self.grant is not None else []

    def close(self) -> None:
        """Clean up after the process: end its connections, revoke its credentials, quarantine new control files."""
        if self.grant is not None:
            self.grant.close()
        if self.control_guard is not None and self.watch is not None:
            self.control_guard.end(self.watch)

    def apply(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of the process in the sandbox."""
        if not self.backend:
            return dict(environment)
        from jaato.tools.processes.sandbox.mount_plan import REMOVED_VARIABLES

        kept = {name: value for name, value in environment.items() if name not in REMOVED_VARIABLES}
        return {**kept, **self.environment}


UNCONFINED = Confinement(FULL)


class ReadOnlyRunner(msgspec.Struct, frozen=True):
    """Starts helpers of our own that read the tree, such as git: read-only, without network or what holds secrets.

    Without a back end they run as they are: each of them brings protections of its own.
    """

    backend: Bubblewrap | None = None
    plan: Callable[[], MountPlan] | None = None
    """Made anew for each start: a socket that is hidden must still be there."""

    @contextmanager
    def start(self, command: Sequence[str], cwd: Path) -> Iterator[tuple[list[str], tuple[int, ...]]]:
        """The command line in the sandbox, and descriptors to pass on, open in the context. The process dies with the thread
        that started it, which must wait for it."""
        if self.backend is None or self.plan is None:
            yield [*command], ()
            return
        from jaato.tools.processes.sandbox.worker_sandbox import filter_options

        with filter_options() as (options, handed):
            more = (*options, "--unshare-net", "--die-with-parent")
            yield [*self.backend.arguments(self.plan(), str(cwd), *more), *command], handed


class Sandbox:
    """Confines the processes of one workspace. Safe from any thread; `close` releases its sessions' networks and files.

    `private` are directories of jaato's own that no confined process sees, `allow_hosts` the hosts at private addresses
    that the user lets the proxy connect to. Without a `backend` the user's settings say which.
    """

    def __init__(
        self,
        workspace: Path,
        *,
        environ: Mapping[str, str],
        private: Iterable[Path] = (),
        cache: Path | None = None,
        backend: BackendChoice | None = None,
        names: ControlNames = STANDARD,
        quarantine: Path | None = None,
        allow_hosts: Iterable[str] = (),
        shared: bool = True,
    ) -> None:
        self.workspace = workspace
        self._shared = shared
        self._environ = environ
        self._private = tuple(private)
        self._cache = cache
        self.choice: BackendChoice = backend or load(environ=environ)["sandbox_backend"]
        self._unknown = True
        home = os.path.realpath(home_of(environ))
        self.control_guard = ControlFileGuard(names, quarantine, home)
        self._allow_hosts = tuple(allow_hosts)
        self._networks = Networks(environ, self._allow_hosts)
        self._tmp: dict[str, PrivateTmp] = {}
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, remove_all, self._tmp)
        weakref.finalize(self, self._networks.abandon).atexit = False

    @property
    def backend(self) -> Backend | None:
        """The back end that is used, found by running it; None where there is none."""
        from jaato.tools.processes.sandbox.backends import choose_backend

        return choose_backend(self.choice, self._environ, self.untrusted)

    @property
    def untrusted(self) -> tuple[Path, ...]:
        """Directories from which no back end is taken."""
        return (self.workspace,)

    @property
    def profiles(self) -> frozenset[SandboxProfile]:
        """The profiles that can be enforced here in full."""
        from jaato.tools.processes.sandbox.backends import PROFILES

        return PROFILES if self.backend is not None else frozenset()

    async def confine(
        self,
        access: SandboxAccess | None,
        cwd: Path,
        session_id: str = "",
        launcher: WardenClient | None = None,
    ) -> Confinement:
        """The confinement of a process with this access; its credentials for the proxy end with `Confinement.close`.

        The warden of `launcher` makes the session's network where there is none yet. Raises `SandboxUnavailable` where
        the profile cannot be enforced: nothing is started with less.
        """
        if access is None or access.profile == "full":
            return self._make_unconfined()
        import anyio.to_thread

        from jaato.tools.processes.sandbox.backends import explain_unavailable
        from jaato.tools.processes.sandbox.mount_plan import make_environment, writable_roots

        backend = await anyio.to_thread.run_sync(lambda: self.backend) if self._unknown else self.backend
        self._unknown = False
        if backend is None:
            why = explain_unavailable(self.choice, self._environ, self.untrusted)
            raise SandboxUnavailable(
                f"No sandbox here can enforce {access.profile!r}: {why} `jaato doctor` says more. "
                "Without one a command runs only with the profile full."
            )
        watch, protected = None, None
        if access.profile == "workspace-write":
            roots = writable_roots(access, self.workspace)
            watch, protected = await anyio.to_thread.run_sync(self.control_guard.begin, roots, access.control)
        plan, cache = self.plan(access, self._temporary(session_id), protected)
        network = await self._networks.ensure(session_id, launcher)
        given = backend.start(plan, str(cwd), joined=network is not None)
        environment = make_environment(access, cache)
        grant, offline = None, ""
        if access.profile == "workspace-write" and access.domains:
            if network is None:
                offline = self._networks.refusal
            else:
                grant = network.grant(access.domains)
                environment |= grant.environment
        return Confinement(
            access,
            backend.name,
            **given,
            environment=environment,
            control_guard=self.control_guard,
            watch=watch,
            network=network,
            grant=grant,
            offline=offline,
            again=functools.partial(self.confine, access, cwd, session_id, launcher),
        )

    def _make_unconfined(self) -> Confinement:
        """A confinement without a sandbox, which may change control files; commands that run meanwhile may not."""
        watch, _ = self.control_guard.begin((), control=True)
        return Confinement(FULL, control_guard=self.control_guard, watch=watch)

    def finish(self, confinement: Confinement) -> list[QuarantinedFile]:
        """Move away the control files that a process has left, which has ended; `reported` adds them to a result."""
        return self.control_guard.finish(confinement.watch) if confinement.watch is not None else []

    def end_session(self, session_id: str) -> None:
        """Release the network and the temporary files of a session."""
        self._networks.end(session_id)
        with self._lock:
            place = self._tmp.pop(session_id, None)
        if place is not None:
            place.remove()

    def plan(
        self, access: SandboxAccess, tmp: Path, protected: ProtectedPaths | None = None
    ) -> tuple[MountPlan, Path | None]:
        """The mount plan of a process with this access and `tmp` as its `/tmp`; and its cache, if it has one."""
        from jaato.tools.processes.sandbox.mount_plan import mount_plan

        cache = self._make_cache() if access.profile == "workspace-write" else None
        plan = mount_plan(
            access,
            self.workspace,
            tmp,
            environ=self._environ,
            private=self._private,
            cache=cache,
            protected=protected,
        )
        return plan, cache

    def protected(self, access: SandboxAccess) -> ProtectedPaths:
        """The control files that a process with this access does not change. Raises `LinkedControlFile`."""
        if access.profile != "workspace-write" or access.control:
            return ProtectedPaths()
        from jaato.tools.processes.sandbox.mount_plan import writable_roots

        watch, protected = self.control_guard.begin(writable_roots(access, self.workspace), control=False)
        self.control_guard.finish(watch)
        return protected

    def read_only_runner(self, visible: Iterable[Path] = ()) -> ReadOnlyRunner:
        """A runner for jaato's own helpers that read the workspace and `visible` directories; blocks while the back end is tested.

        What is `visible` below `/tmp` is so from the top: a repository may begin above the directory that is asked about.
        """
        from jaato.tools.processes.sandbox.backends import Bubblewrap
        from jaato.tools.processes.sandbox.mount_plan import mount_plan

        backend = self.backend
        if not isinstance(backend, Bubblewrap):
            return ReadOnlyRunner()
        tops = [Path(*path.parts[:3]) for path in map(Path.resolve, (self.workspace, *visible))]
        plan = functools.partial(
            mount_plan,
            READ_ONLY,
            self.workspace,
            None,
            environ=self._environ,
            private=self._private,
            visible=tops,
        )
        return ReadOnlyRunner(backend, plan)

    def for_server(self, cache: Path | None) -> Sandbox:
        """A sandbox with the same rules for a process that outlives sessions, with its own network, temporary files and
        cache. The guard of control files is shared, so that changes with permission are known to both."""
        made = Sandbox(
            self.workspace,
            environ=self._environ,
            private=self._private,
            cache=cache,
            backend=self.choice,
            allow_hosts=self._allow_hosts,
        )
        made.control_guard = self.control_guard
        return made

    def release(self) -> None:
        """Close it when its user ends, unless it is shared."""
        if not self._shared:
            self.close()

    def close(self) -> None:
        """Release what its sessions have."""
        self._networks.close()
        with self._lock:
            remove_all(self._tmp)

    def _temporary(self, session_id: str) -> Path:
        from jaato.tools.processes.sandbox.temporary import PrivateTmp

        with self._lock:
            place = self._tmp.get(session_id)
            if place is None or not place.path.is_dir():
                place = self._tmp[session_id] = PrivateTmp()
            return place.path

    def _make_cache(self) -> Path | None:
        if self._cache is None:
            return None
        real, workspace = os.path.realpath(self._cache), os.path.realpath(self.workspace)
        if is_below(str(self._cache), workspace) and not is_below(real, workspace):
            return None  # a command has put a link in its place
        try:
            self._cache.mkdir(0o700, parents=True, exist_ok=True)
        except OSError:
            return None
        return self._cache.resolve()


def remove_all(places: dict[str, PrivateTmp]) -> None:
    """Remove directories with everything in them."""
    while places:
        places.popitem()[1].remove()


def quarantine_new_control_files(host: Host) -> list[QuarantinedFile]:
    """Move away the control files that processes which still run have made by now; none without a shared sandbox."""
    from jaato.tools.host_services import service_of

    found: Sandbox | None = service_of(host, "sandbox")
    return [] if found is None else found.control_guard.sweep()


def sandbox_of(host: Host) -> Sandbox:
    """The host's service `sandbox`; without one, a sandbox for its workspace."""
    from jaato.tools.host_services import environ_of, service_of

    found: Sandbox | None = service_of(host, "sandbox")
    return Sandbox(host.workspace, environ=environ_of(host), shared=False) if found is None else found


def profiles_of(services: Mapping[str, Any], workspace: Path) -> Callable[[], frozenset[SandboxProfile]]:
    """A function that returns the profiles of the service `sandbox`; without it, those of a sandbox for the workspace."""
    from jaato.settings import environment

    found: Sandbox | None = services.get("sandbox")
    sandbox = found or Sandbox(workspace, environ=services.get("environ") or environment())
    return lambda: sandbox.profiles
