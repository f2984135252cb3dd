"""The plugin `notebook`: tools that run cells in a Jupyter kernel."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import msgspec

from jaato.abc.plugin import Host, Plugin
from jaato.errors import ToolError
from jaato.plugins.notebook.kernel_client import KernelClient, KernelFailed
from jaato.plugins.notebook.notebook_file import NotebookDocument, NotebookFiles, NotebookRefused
from jaato.plugins.notebook.results import LOSS, add_removed_files, add_sandbox_fields, cell_result
from jaato.tools.call import Call, Output
from jaato.tools.filesystem.errors import FileMissing
from jaato.tools.host_services import environ_of
from jaato.tools.permissions.access import check_reach, sandbox_fields
from jaato.tools.processes.environment import command_environment
from jaato.tools.processes.launcher import WardenClient
from jaato.tools.processes.loop_thread import LoopThread, SessionCleanup
from jaato.tools.processes.sandbox.sandbox import quarantine_new_control_files, sandbox_of
from jaato.tools.tool import tool

MAX_NOTEBOOKS = 8
MAX_CODE_CHARS = 1_000_000
LISTING_S = 20.0
MAIN = "main"
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


@dataclass(eq=False)
class Notebook:
    """One notebook of one session. `lost` says why its last kernel ended, until a result has reported it."""

    name: str
    kernel: KernelClient
    path: str | None = None
    cells: int = 0
    busy: bool = False
    lost: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class NotebookPlugin(Plugin):
    """Python notebooks. The kernel runs in the workspace, with the `python` of the configuration, else jaato's own."""

    name: ClassVar[str] = "notebook"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._files = NotebookFiles(host)
        self._python = str(host.config.get("python") or sys.executable)
        self._loop_thread = LoopThread("jaato-notebooks")
        self._launcher = WardenClient()
        self._sandbox = sandbox_of(host)
        self._books: dict[tuple[str, str], Notebook] = {}
        self._cleanup = SessionCleanup(
            lambda session_id: self._loop_thread.run(self._end_session(session_id))
        )

    @tool(category="code", access="execute", background_after_s=10.0)
    async def notebook_execute(
        self,
        code: Annotated[str | None, "Python code of one cell; IPython's !cmd and %magic work"] = None,
        notebook: Name = MAIN,
        *,
        cell: Annotated[int | None, "instead: number of a cell of the bound file, from 1"] = None,
        timeout_s: Seconds = 600.0,
        call: Call,
    ) -> Output:
        """Run Python code in a live Jupyter kernel that keeps variables between calls: data analysis, experiments,
        plots. Returns printed text, the last value, images, or the traceback."""
        if (code is None) == (cell is None):
            raise ToolError("Give code to run, or the number of a cell of the bound file; not both.")
        if code is not None and len(code) > MAX_CODE_CHARS:
            raise ToolError("The code is too long for a cell. Write it to a file and import that.")
        await self._cleanup.register(call)
        try:
            result = await self._loop_thread.run(
                self._execute(code, notebook, cell, timeout_s, call), call.token
            )
        finally:
            removed = quarantine_new_control_files(self.host)
        return add_removed_files(result, removed)

    @tool(category="code", access="execute")
    async def notebook_create(
        self,
        name: Name,
        path: Annotated[str | None, "an .ipynb file that gets every cell run; made if missing"] = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Start a notebook with a fresh Python kernel of its own, optionally bound to an .ipynb file of the workspace
        whose cells can then be run by number. Returns its cells."""
        await self._cleanup.register(call)
        return await self._loop_thread.run(self._create(name, path, call), call.token)

    @tool(category="code", access="read")
    async def notebook_variables(
        self,
        notebook: Name = MAIN,
        offset: Annotated[int, msgspec.Meta(ge=0)] = 0,
        limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """List the variables a notebook's kernel holds: name, type, shape or length, and a short value."""
        return await self._loop_thread.run(self._variables(notebook, offset, limit, call), call.token)

    @tool(category="code", access="execute")
    async def notebook_reset(self, notebook: Name = MAIN, *, call: Call) -> dict[str, Any]:
        """Throw away a notebook's kernel and all its variables, also while a cell runs; the next notebook_execute
        starts fresh."""
        return await self._loop_thread.run(self._reset(notebook, call), call.token)

    @tool(category="code", access="read")
    async def notebook_list(self, *, call: Call) -> dict[str, Any]:
        """List this session's notebooks: state (idle, busy, no kernel), cells run, and the bound file."""
        rows = [
            {
                "name": book.name,
                "state": "busy" if book.busy else "idle" if book.kernel.is_alive else "no kernel",
                "cells_run": book.cells,
                **({"path": book.path} if book.path else {}),
                **(sandbox_fields(book.kernel.access) if book.kernel.is_alive else {}),
            }
            for book in self._session_notebooks(call)
        ]
        return {"notebooks": rows, "limit": MAX_NOTEBOOKS}

    def shutdown(self) -> None:
        """End every kernel with its child processes."""
        self._loop_thread.close()
        self._launcher.close()
        self._sandbox.release()

    # --- on the loop thread ------------------------------------------------------------------------------------

    async def _execute(
        self, code: str | None, name: str, cell: int | None, timeout_s: float, call: Call
    ) -> Output:
        book = self._find(name, call, make=name == MAIN)
        async with book.lock:
            document = await asyncio.to_thread(self._files.read, book.path) if book.path else None
            if cell is not None:
                if document is None:
                    raise ToolError(f"The notebook {name} has no file. Bind one with notebook_create.")
                code = document.source(cell)
            before = book.lost or book.kernel.lost
            if book.kernel.is_alive:
                check_reach(
                    book.kernel.access,
                    call.access,
                    f"The kernel of {name}",
                    "Use notebook_reset, or another notebook, for one with less; or ask for more for this call.",
                )
            book.busy = True
            try:
                await book.kernel.start(self._sandbox, call)
                book.lost = ""
                answer = await book.kernel.request({"op": "execute", "code": code}, timeout_s, call.output)
            except KernelFailed as error:
                book.lost = str(error)
                raise
            finally:
                book.busy = False
            book.cells += 1
            if answer.get("event") == "lost":
                book.lost = str(answer.get("why"))
            result = add_sandbox_fields(
                cell_result(name, answer, timeout_s, call), name, book.kernel.access, call.access
            )
            if before:
                notice = (
                    f"[This is a fresh kernel; the last one is gone: {before}. Its variables are lost.]\n"
                )
                result = Output(
                    notice + result.text, {**result.structured, "fresh_kernel": True}, result.media
                )
            if document is not None and book.path is not None:
                note = await asyncio.to_thread(
                    self._files.record, book.path, document, cell, code or "", answer, call
                )
                if note:
                    facts = {**result.structured, "file_note": note}
                    result = Output(f"{result.text}\n[{note}]", facts, result.media)
            return result

    async def _create(self, name: str, path: str | None, call: Call) -> dict[str, Any]:
        if any(book.name == name for book in self._session_notebooks(call)):
            raise ToolError(f"There is a notebook {name} already. Use it, or notebook_reset it.")
        document = None
        if path is not None:
            if not path.endswith(".ipynb"):
                raise NotebookRefused(f"{path!r} does not end with .ipynb. Name a notebook file.")
            try:
                document = await asyncio.to_thread(self._files.read, path)
            except FileMissing:
                document = NotebookDocument.empty()
                await asyncio.to_thread(self._files.write, path, document, call)
        book = self._find(name, call, make=True)
        book.path = path
        try:
            await book.kernel.start(self._sandbox, call)
        except BaseException:
            self._books.pop((call.session_id, name), None)
            raise
        cells = [] if document is None else document.document["cells"]
        shown = [
            {"cell": i, "type": c["cell_type"], "source": "".join(c["source"])[:200]}
            for i, c in enumerate(cells, 1)
        ]
        return {
            "notebook": name,
            "path": path,
            "cells": len(shown),
            "first_cells": shown[:50],
            **sandbox_fields(book.kernel.access),
        }

    async def _variables(self, name: str, offset: int, limit: int, call: Call) -> dict[str, Any]:
        book = self._find(name, call)
        if book.busy:
            raise ToolError(f"A cell runs in {name}; its variables can be listed when it has ended.")
        async with book.lock:
            if not book.kernel.is_alive:
                raise ToolError(f"The notebook {name} has no kernel now, so no variables. Run a cell first.")
            request = {"op": "variables", "offset": offset, "limit": limit, "within_s": LISTING_S / 2}
            answer = await book.kernel.request(request, LISTING_S)
            if answer.get("event") == "lost":
                book.lost = str(answer.get("why"))
                raise KernelFailed(f"The kernel is gone: {answer.get('why')}. {LOSS}")
        found = answer.get("found")
        if not isinstance(found, dict):
            why = "it took too long" if answer.get("timed_out") else answer.get("why", "no answer")
            raise ToolError(f"The variables could not be listed: {why}. Print what you need in a cell.")
        shown = offset + len(found["variables"])
        return {**found, **({"next_offset": shown} if shown < found["total"] else {})}

    async def _reset(self, name: str, call: Call) -> dict[str, Any]:
        book = self._find(name, call)
        await book.kernel.close()
        async with book.lock:
            await book.kernel.close()
            book.lost, book.cells = "", 0
        return {
            "notebook": name,
            "note": "The kernel and its variables are gone; the next cell starts a fresh one.",
        }

    async def _end_session(self, session_id: str) -> None:
        """End the kernels of an ended session."""
        books = [self._books.pop(key) for key in list(self._books) if key[0] == session_id]
        await asyncio.gather(*(book.kernel.close() for book in books))

    # --- the rest ----------------------------------------------------------------------------------------------

    def _session_notebooks(self, call: Call) -> list[Notebook]:
        return [book for (session, _), book in list(self._books.items()) if session == call.session_id]

    def _find(self, name: str, call: Call, *, make: bool = False) -> Notebook:
        found = self._books.get((call.session_id, name))
        if found is not None:
            return found
        own = self._session_notebooks(call)
        if not make:
            known = ", ".join(book.name for book in own) or "none"
            raise ToolError(
                f"There is no notebook {name} (there are: {known}). Make it with notebook_create."
            )
        if len(own) >= MAX_NOTEBOOKS:
            raise ToolError(
                f"There are {MAX_NOTEBOOKS} notebooks, the most a session may have. Use one of them."
            )
        kernel = KernelClient(
            self._launcher, self._python, call.workspace, lambda: command_environment(environ_of(self.host))
        )
        made = self._books[call.session_id, name] = Notebook(name, kernel)
        return made
