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
    """How to start a server: its command, environment, what it is told when it asks, and at its start."""

    language: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    settings: Mapping[str, Any]
    options: Mapping[str, Any] | None = None


class LanguageServer:
    """A server for one directory, on the loop its methods are awaited on. Make one per start."""

    def __init__(self, way: ServerCommand, root: Path, confinement: Confinement = UNCONFINED) -> None:
        self.way = way
        self.root = root
        self.used_at = time.monotonic()
        self.in_use = 0
        self.capabilities: dict[str, Any] = {}
        self.diagnosed: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self.told: dict[str, int] = {}
        """How often each file's diagnostics have come."""
        self.acquainted = False
        """Whether it has had its time to look at all of the project."""
        self._unanswered = 0
        self._news = asyncio.Event()
        self._progress: set[Any] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._ids = 0
        self._temporary: PrivateTmp | None = None
        if not confinement.prefix:
            with contextlib.suppress(OSError):  # on a full disk it does without
                self._temporary = PrivateTmp()
        more = {"TMPDIR": str(self._temporary.path)} if self._temporary is not None else {}
        self._tidying: asyncio.Task[None] | None = None
        self._talk = FramedProcess(
            way.argv,
            root,
            {**way.environment, **more},
            take=self._take,
            most_bytes=MESSAGE_BYTES,
            limits=CommandLimits(grace_s=1.0),
            confinement=confinement,
        )

    @property
    def alive(self) -> bool:
        """Whether it can be spoken with."""
        return not self._talk.over.is_set() and self._unanswered < MOST_UNANSWERED

    @property
    def why(self) -> str:
        """How it ended, in words; empty while it runs."""
        return self._talk.why

    async def start(self, launcher: WardenClient) -> None:
        """Start it and shake hands. Raises `ServerFailed`; then nothing of it is left."""
        self._talk.begin(launcher)
        self._tidying = asyncio.create_task(self._tidy(), name="jaato-lsp-tidy")
        try:
            answer = await self.ask(
                "initialize",
                {
                    "processId": None,  # which it would watch for, and not see from the sandbox
                    "clientInfo": {"name": "jaato"},
                    "rootUri": self.root.as_uri(),
                    "rootPath": str(self.root),
                    "capabilities": CAPABILITIES,
                    "workspaceFolders": self._folders(),
                    "initializationOptions": self.way.options,
                },
                START_S,
            )
            found = answer.get("capabilities") if isinstance(answer, dict) else None
            self.capabilities = found if isinstance(found, dict) else {}
            self.tell("initialized", {})
            self.tell("workspace/didChangeConfiguration", {"settings": self.way.settings})
            await self._settled()
        except BaseException as error:
            await self.close()
            if isinstance(error, ToolTimeout):
                raise ServerFailed(
                    f"The language server {self.way.argv[0]} did not start within {START_S:g} s. {self._talk.errors[-500:]}"
                ) from None
            raise

    async def ask(self, method: str, params: Any, within_s: float = ANSWER_S) -> Any:
        """The result of a request. Raises `ServerFailed`, and `ToolTimeout` when it does not answer."""
        self._ids += 1
        number, self.used_at = self._ids, time.monotonic()
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        over = asyncio.ensure_future(self._talk.over.wait())
        self.in_use += 1
        try:
            self._talk.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            await asyncio.wait([waiting, over], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return self._result(method, waiting.result())
            if over.done():
                raise ServerFailed(f"The language server ended. {self._talk.why}")
            self._unanswered += within_s >= ANSWER_S
            if self._unanswered >= MOST_UNANSWERED:
                self._talk.stop(f"it had left {MOST_UNANSWERED} questions unanswered, so it was ended")
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
                self.tell("$/cancelRequest", {"id": number})

    def tell(self, method: str, params: Any) -> None:
        """Send a notification; one to a server that has ended is lost."""
        try:
            self._talk.send({"jsonrpc": "2.0", "method": method, "params": params})
        except ProcessEnded:
            return  # the next request says so

    async def news_of(self, uri: str, since: int, within_s: float) -> bool:
        """Wait until diagnostics of a file have come more often than this; whether they did."""
        until = time.monotonic() + within_s
        self.in_use += 1
        try:
            return await self._news_until(uri, since, until)
        finally:
            self.in_use -= 1
            self.used_at = time.monotonic()

    async def _news_until(self, uri: str, since: int, until: float) -> bool:
        while self.told.get(uri, 0) <= since and self.alive and time.monotonic() < until:
            self._news.clear()
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await self._news.wait()
            except TimeoutError:
                break
        return self.told.get(uri, 0) > since

    async def close(self) -> None:
        """End it; nothing of it is left."""
        await self._talk.close()
        if self._tidying is not None:
            await asyncio.wait([self._tidying])

    async def _tidy(self) -> None:
        """When it has ended, however that was, remove its temporary files."""
        try:
            await self._talk.over.wait()
        except asyncio.CancelledError:
            await self._talk.close()
            raise
        finally:
            if self._temporary is not None:
                self._temporary.remove()

    async def _settled(self) -> None:
        """Wait until it has looked at the project, if it says that it does so."""
        await asyncio.sleep(BEGIN_S)
        over = asyncio.ensure_future(self._talk.over.wait())
        quiet = asyncio.ensure_future(self._quiet.wait())
        await asyncio.wait([over, quiet], timeout=SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        quiet.cancel()

    def _result(self, method: str, answer: dict[str, Any]) -> Any:
        error = answer.get("error")
        if error is None:
            return answer.get("result")
        said = error.get("message") if isinstance(error, dict) else error
        raise ServerFailed(f"The language server answered {method} with an error: {str(said)[:1_000]}")

    def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": str(method), "id": int() | str() as number}:
                self._answer(method, number, message.get("params"))
            case {"method": str(method)}:
                self._note(method, message.get("params"))
            case {"id": int(number)} if number in self._waiting and not self._waiting[number].done():
                self._unanswered = 0
                self._waiting[number].set_result(message)

    def _answer(self, method: str, number: int | str, params: Any) -> None:
        """Answer what the server asks; it may do nothing here."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "result": None}
        match method:
            case "workspace/configuration":
                items = params.get("items") if isinstance(params, dict) else None
                asked = items[:100] if isinstance(items, list) else []
                answer["result"] = [section(self.way.settings, item) for item in asked]
            case "workspace/workspaceFolders":
                answer["result"] = self._folders()
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
            self._talk.send(answer)
        except ProcessEnded:
            return

    def _note(self, method: str, params: Any) -> None:
        """Keep what is worth keeping of what the server says by itself."""
        match method, params:
            case "textDocument/publishDiagnostics", {"uri": str(uri), "diagnostics": list(found)}:
                self.diagnosed[uri] = [one for one in found[:MAX_DIAGNOSTICS] if isinstance(one, dict)]
                self.diagnosed.move_to_end(uri)
                while len(self.diagnosed) > MAX_DIAGNOSED:
                    self.told.pop(self.diagnosed.popitem(last=False)[0], None)
                self.told[uri] = self.told.get(uri, 0) + 1
                self._news.set()
            case "$/progress", {"token": int() | str() as token, "value": {"kind": str(kind)}}:
                if kind == "end":
                    self._progress.discard(token)
                elif kind == "begin" and len(self._progress) < MAX_PROGRESS:
                    self._progress.add(token)
                (self._quiet.clear if self._progress else self._quiet.set)()

    def _folders(self) -> list[dict[str, str]]:
        return [{"uri": self.root.as_uri(), "name": self.root.name or "/"}]


def section(settings: Mapping[str, Any], item: Any) -> Any:
    """The settings below a dotted name."""
    found: Any = settings
    name = item.get("section") if isinstance(item, dict) else None
    for key in str(name).split(".") if name else ():
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
