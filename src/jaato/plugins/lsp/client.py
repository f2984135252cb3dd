"""Client of one language server in its own process: handshake, requests, notifications, shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaato.errors import ToolError, ToolTimeout
from jaato.tools.processes.command import CommandLimits
from jaato.tools.processes.framed_process import FramedProcess, ProcessEnded
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.sandbox.sandbox import UNCONFINED, Confinement
from jaato.tools.processes.sandbox.temporary import PrivateTmp

SYMBOL_KINDS = (
    "file module namespace package class method property field constructor enum interface function variable "
    "constant string number boolean array object key null enum_member struct event operator type_parameter"
).split()
SEVERITIES = ("error", "warning", "information", "hint")

CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True, "showMessage": {}},
    "workspace": {
        "applyEdit": False,
        "configuration": True,
        "didChangeConfiguration": {"dynamicRegistration": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceFolders": True,
        "symbol": {"symbolKind": {"valueSet": list(range(1, 27))}},
        "workspaceEdit": {"documentChanges": True, "failureHandling": "abort"},
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "definition": {"linkSupport": True},
        "typeDefinition": {"linkSupport": True},
        "implementation": {"linkSupport": True},
        "declaration": {"linkSupport": True},
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "publishDiagnostics": {"relatedInformation": False, "versionSupport": True},
        "diagnostic": {"relatedDocumentSupport": False},
        "rename": {"prepareSupport": False},
        "codeAction": {
            "codeActionLiteralSupport": {
                "codeActionKind": {
                    "valueSet": ["", "quickfix", "refactor", "source", "source.organizeImports"]
                }
            },
            "isPreferredSupport": True,
            "disabledSupport": True,
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
        },
    },
}


START_S = 45.0
ANSWER_S = 30.0
SETTLE_S = 30.0
BEGIN_S = 0.3
MESSAGE_BYTES = 48 << 20
MAX_DIAGNOSED = 500
MAX_DIAGNOSTICS = 500
MAX_PROGRESS = 1_000
MOST_UNANSWERED = 2
METHOD_NOT_FOUND = -32601


class ServerFailed(ToolError):
    """The language server could not be started, ended, or answered with an error."""

    code = "language_server_failed"


@dataclass(frozen=True)
class ServerCommand:
    """How to start a server: command, environment, settings it may request, and initialization options."""

    language: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    settings: Mapping[str, Any]
    options: Mapping[str, Any] | None = None


class LanguageServer:
    """A server for one directory, on the loop its methods are awaited on. Make one per start."""

    def __init__(self, command: ServerCommand, root: Path, confinement: Confinement = UNCONFINED) -> None:
        self.command = command
        self.root = root
        self.used_at = time.monotonic()
        self.in_use = 0
        self.capabilities: dict[str, Any] = {}
        self.diagnosed: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self.diagnostic_counts: dict[str, int] = {}
        """By URI, how many times diagnostics were published."""
        self.indexing_done = False
        """Whether the wait for the indexing of the project is over."""
        self._unanswered = 0
        self._diagnostics_changed = asyncio.Event()
        self._progress: set[Any] = set()
        self._indexing_idle = asyncio.Event()
        self._indexing_idle.set()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._ids = 0
        self._temporary: PrivateTmp | None = None
        if not confinement.prefix:
            with contextlib.suppress(OSError):  # on a full disk it does without
                self._temporary = PrivateTmp()
        more = {"TMPDIR": str(self._temporary.path)} if self._temporary is not None else {}
        self._cleanup: asyncio.Task[None] | None = None
        self._process = FramedProcess(
            command.argv,
            root,
            {**command.environment, **more},
            take=self._handle_message,
            most_bytes=MESSAGE_BYTES,
            limits=CommandLimits(grace_s=1.0),
            confinement=confinement,
        )

    @property
    def is_alive(self) -> bool:
        """Whether it runs and answers requests."""
        return not self._process.over.is_set() and self._unanswered < MOST_UNANSWERED

    @property
    def why(self) -> str:
        """How it ended, in words; empty while it runs."""
        return self._process.why

    async def start(self, launcher: WardenClient) -> None:
        """Start it and initialize the protocol. Raises `ServerFailed` after ending it."""
        self._process.begin(launcher)
        self._cleanup = asyncio.create_task(self._remove_temporary(), name="jaato-lsp-tidy")
        try:
            answer = await self.request(
                "initialize",
                {
                    "processId": None,  # which it would watch for, and not see from the sandbox
                    "clientInfo": {"name": "jaato"},
                    "rootUri": self.root.as_uri(),
                    "rootPath": str(self.root),
                    "capabilities": CAPABILITIES,
                    "workspaceFolders": self._workspace_folders(),
                    "initializationOptions": self.command.options,
                },
                START_S,
            )
            found = answer.get("capabilities") if isinstance(answer, dict) else None
            self.capabilities = found if isinstance(found, dict) else {}
            self.notify("initialized", {})
            self.notify("workspace/didChangeConfiguration", {"settings": self.command.settings})
            await self._wait_for_indexing()
        except BaseException as error:
            await self.close()
            if isinstance(error, ToolTimeout):
                raise ServerFailed(
                    f"The language server {self.command.argv[0]} did not start within {START_S:g} s. {self._process.errors[-500:]}"
                ) from None
            raise

    async def request(self, method: str, params: Any, within_s: float = ANSWER_S) -> Any:
        """The result of a request. Raises `ServerFailed`, and `ToolTimeout` when it does not answer."""
        self._ids += 1
        number, self.used_at = self._ids, time.monotonic()
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        over = asyncio.ensure_future(self._process.over.wait())
        self.in_use += 1
        try:
            self._process.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await asyncio.wait([waiting, over], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return self._read_result(method, waiting.result())
            if over.done():
                raise ServerFailed(f"The language server ended. {self._process.why}")
            self._unanswered += within_s >= ANSWER_S
            if self._unanswered >= MOST_UNANSWERED:
                self._process.stop(f"it had left {MOST_UNANSWERED} questions unanswered, so it was ended")
            raise ToolTimeout(f"The language server did not answer {method} within {within_s:g} s.")
        except ProcessEnded as error:
            raise ServerFailed(f"The language server ended. {error}") from None
        finally:
            self.in_use -= 1
            self.used_at = time.monotonic()
            del self._waiting[number]
            over.cancel()
            if not waiting.done():
                waiting.cancel()
                self.notify("$/cancelRequest", {"id": number})

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; it is dropped when the server has ended."""
        try:
            self._process.send({"jsonrpc": "2.0", "method": method, "params": params})
        except ProcessEnded:
            return  # the next request says so

    async def wait_for_diagnostics(self, uri: str, since: int, within_s: float) -> bool:
        """Wait until diagnostics of a file were published more than `since` times; returns whether they were."""
        until = time.monotonic() + within_s
        self.in_use += 1
        try:
            return await self._wait_until(uri, since, until)
        finally:
            self.in_use -= 1
            self.used_at = time.monotonic()

    async def _wait_until(self, uri: str, since: int, until: float) -> bool:
        while self.diagnostic_counts.get(uri, 0) <= since and self.is_alive and time.monotonic() < until:
            self._diagnostics_changed.clear()
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await self._diagnostics_changed.wait()
            except TimeoutError:
                break
        return self.diagnostic_counts.get(uri, 0) > since

    async def close(self) -> None:
        """End it and its child processes and remove its temporary files."""
        await self._process.close()
        if self._cleanup is not None:
            await asyncio.wait([self._cleanup])

    async def _remove_temporary(self) -> None:
        """Remove its temporary files once it has ended."""
        try:
            await self._process.over.wait()
        except asyncio.CancelledError:
            await self._process.close()
            raise
        finally:
            if self._temporary is not None:
                self._temporary.remove()

    async def _wait_for_indexing(self) -> None:
        """Wait until it reports no more progress, up to `SETTLE_S`."""
        await asyncio.sleep(BEGIN_S)
        over = asyncio.ensure_future(self._process.over.wait())
        quiet = asyncio.ensure_future(self._indexing_idle.wait())
        await asyncio.wait([over, quiet], timeout=SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        quiet.cancel()

    def _read_result(self, method: str, answer: dict[str, Any]) -> Any:
        error = answer.get("error")
        if error is None:
            return answer.get("result")
        text = error.get("message") if isinstance(error, dict) else error
        raise ServerFailed(f"The language server answered {method} with an error: {str(text)[:1_000]}")

    def _handle_message(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": str(method), "id": int() | str() as number}:
                self._handle_request(method, number, message.get("params"))
            case {"method": str(method)}:
                self._handle_notification(method, message.get("params"))
            case {"id": int(number)} if number in self._waiting and not self._waiting[number].done():
                self._unanswered = 0
                self._waiting[number].set_result(message)

    def _handle_request(self, method: str, number: int | str, params: Any) -> None:
        """Answer a request of the server; none has an effect here."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "result": None}
        match method:
            case "workspace/configuration":
                items = params.get("items") if isinstance(params, dict) else None
                asked = items[:100] if isinstance(items, list) else []
                answer["result"] = [section(self.command.settings, item) for item in asked]
            case "workspace/workspaceFolders":
                answer["result"] = self._workspace_folders()
            case "workspace/applyEdit":
                answer["result"] = {
                    "applied": False,
                    "failureReason": "only edits that were asked for are made",
                }
            case (
                "window/workDoneProgress/create" | "client/registerCapability" | "client/unregisterCapability"
            ):
                pass
            case "window/showMessageRequest" | "window/showDocument" | "workspace/diagnostic/refresh":
                pass
            case _:
                del answer["result"]
                answer["error"] = {"code": METHOD_NOT_FOUND, "message": f"no {method[:100]} here"}
        try:
            self._process.send(answer)
        except ProcessEnded:
            return

    def _handle_notification(self, method: str, params: Any) -> None:
        """Record published diagnostics and progress; other notifications are ignored."""
        match method, params:
            case "textDocument/publishDiagnostics", {"uri": str(uri), "diagnostics": list(found)}:
                self.diagnosed[uri] = [one for one in found[:MAX_DIAGNOSTICS] if isinstance(one, dict)]
                self.diagnosed.move_to_end(uri)
                while len(self.diagnosed) > MAX_DIAGNOSED:
                    self.diagnostic_counts.pop(self.diagnosed.popitem(last=False)[0], None)
                self.diagnostic_counts[uri] = self.diagnostic_counts.get(uri, 0) + 1
                self._diagnostics_changed.set()
            case "$/progress", {"token": int() | str() as token, "value": {"kind": str(kind)}}:
                if kind == "end":
                    self._progress.discard(token)
                elif kind == "begin" and len(self._progress) < MAX_PROGRESS:
                    self._progress.add(token)
                (self._indexing_idle.clear if self._progress else self._indexing_idle.set)()

    def _workspace_folders(self) -> list[dict[str, str]]:
        return [{"uri": self.root.as_uri(), "name": self.root.name or "/"}]


def section(settings: Mapping[str, Any], item: Any) -> Any:
    """The settings below a dotted name."""
    found: Any = settings
    name = item.get("section") if isinstance(item, dict) else None
    for key in str(name).split(".") if name else ():
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
