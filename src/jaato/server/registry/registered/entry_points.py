"""The handler `entry_point`: a function of an installed package, where the operator allows it."""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from jaato.errors import JaatoError, ToolError
from jaato.log import logger
from jaato.server.registry.registered.types import EntryPoint, Forbidden, Invalid
from jaato.tools.call import Call
from jaato.tools.tool import Tool, tool_from

LOG = logger("server.registry")
TARGET = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)", re.ASCII)
MAX_TARGET_CHARS = 300


class EntryPoints:
    """The functions that may be called: those whose `package.module:function` one of the patterns covers. Nothing is
    imported from the workspace, nor from the directory of the process, which whoever works there can write to."""

    def __init__(self, allowed: Iterable[str], workspace: Path) -> None:
        self._allowed = tuple(allowed)
        self._workspace = workspace.resolve()
        self._made: dict[str, Tool] = {}

    def check(self, handler: EntryPoint) -> None:
        """Raise `Invalid` for what names no function that can be a tool, `Forbidden` for one that is not allowed. The
        module is imported."""
        self.refuse(handler)
        try:
            self.tool(handler.target)
        except ToolError as error:
            raise Invalid([("/handler/target", str(error).rstrip("."))]) from None

    def refuse(self, handler: EntryPoint) -> None:
        """Raise `Invalid` for what names no function, `Forbidden` for one that is not allowed."""
        if len(handler.target) > MAX_TARGET_CHARS or not TARGET.fullmatch(handler.target):
            raise Invalid([("/handler/target", "is written package.module:function")])
        if not any(fnmatch.fnmatchcase(handler.target, pattern) for pattern in self._allowed):
            raise Forbidden(
                f"The entry point {handler.target} is not allowed here; the operator can allow it: "
                f"jaato registry serve --allow-entry-point '{handler.target}'."
            )

    def call(self, handler: EntryPoint, arguments: dict[str, Any], call: Call) -> Any:
        """Call the function, in a worker's thread; of an asynchronous one that gives what is to be awaited. Raises
        `ToolError`s, and what the function raises."""
        return self.tool(handler.target).run(arguments, call)

    def tool(self, target: str) -> Tool:
        """The function as a tool, imported once. Raises `ToolError`."""
        found = self._made.get(target)
        if found is None:
            found = self._made[target] = self._load(target)
        return found

    def _load(self, target: str) -> Tool:
        parts = TARGET.fullmatch(target)
        assert parts is not None
        try:
            self._refuse_own(parts["module"])
            function = getattr(importlib.import_module(parts["module"]), parts["name"], None)
            if isinstance(function, Tool):
                return function
            if not callable(function):
                raise ToolError(f"there is no function {target}")
            return tool_from(function)
        except JaatoError as error:
            raise ToolError(f"The entry point {target}: {error}") from None
        except (Exception, SystemExit):  # the module's own code runs here
            LOG.exception("The entry point %s cannot be loaded", target)
            raise ToolError(
                f"The entry point {target} cannot be loaded; the registry's log says why."
            ) from None

    def _refuse_own(self, module: str) -> None:
        """Raise `ToolError` where a module, or a package above it, would come from the workspace. Only packages that may
        be imported are, on the way."""
        names = module.split(".")
        for end in range(1, len(names) + 1):
            name = ".".join(names[:end])
            try:
                spec = importlib.util.find_spec(name)
            except ValueError:
                spec = None
            if spec is None:
                raise ToolError(f"there is no module {name}")
            for place in places_of(spec):
                if self._is_own(place, top=end == 1):
                    raise ToolError(
                        f"{name} is in the workspace or the directory of the process; it has to be installed"
                    )

    def _is_own(self, place: Path, *, top: bool) -> bool:
        installed = [
            Path(sys.prefix).resolve(),
            *(Path(sysconfig.get_path(one)) for one in ("purelib", "platlib")),
        ]
        if top and place.parent == Path.cwd() and not any(place.parent == one for one in installed):
            return True
        if not place.is_relative_to(self._workspace):
            return False
        return not any(place.is_relative_to(one) and one.is_relative_to(self._workspace) for one in installed)


def places_of(spec: ModuleSpec) -> list[Path]:
    """Where a module is: its file, the directories of a package. None for one that is built in."""
    found = [Path(place) for place in spec.submodule_search_locations or ()]
    if not found and spec.origin is not None and spec.has_location:
        found.append(Path(spec.origin))
    return [place.resolve() for place in found]
