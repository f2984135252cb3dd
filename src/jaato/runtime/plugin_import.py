"""A plugin's modules from bytes that were read before: no file of it is opened again."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

from jaato.errors import PluginError
from jaato.runtime.plugin_tree import Tree


class Memory(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the modules of one plugin, below a name that nobody else has, from its bytes alone.

    Only source is run: no byte code, no extension module. `pkgutil.get_data` gives the plugin's other files.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.root = f"jaato_plugin_{tree.name}_{tree.digest[-16:]}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module of this name, if the plugin has it."""
        file = self._file(fullname)
        if file is None:
            return None
        spec = importlib.util.spec_from_loader(
            fullname, self, origin=str(self._place(file)), is_package=file.endswith("__init__.py")
        )
        if spec is not None:
            spec.has_location = True
        return spec

    def _file(self, fullname: str) -> str | None:
        if fullname == self.root:
            return next(one for one in (f"{self.tree.name}.py", "__init__.py") if one in self.tree.files)
        if not fullname.startswith(f"{self.root}."):
            return None
        below = fullname[len(self.root) + 1 :].replace(".", "/")
        return next((one for one in (f"{below}.py", f"{below}/__init__.py") if one in self.tree.files), None)

    def _place(self, file: str) -> str:
        path = self.tree.path
        return str(path if path.suffix == ".py" else path / file)

    def is_package(self, fullname: str) -> bool:
        """Whether a module may have others below it."""
        return (self._file(fullname) or "").endswith("__init__.py")

    def get_source(self, fullname: str) -> str:
        """The text of a module, for tracebacks too."""
        return importlib.util.decode_source(self._bytes(fullname))

    def get_code(self, fullname: str) -> CodeType:
        """The module, compiled."""
        file = self._file(fullname) or fullname
        code: CodeType = compile(self._bytes(fullname), self._place(file), "exec", dont_inherit=True)
        return code

    def get_data(self, path: str) -> bytes:
        """A file of the plugin, as it was when it was trusted. Raises OSError."""
        base = str(self.tree.path)
        below = path[len(base) :].lstrip("/") if path.startswith(base) else path
        try:
            return self.tree.files[below or f"{self.tree.name}.py"]
        except KeyError:
            raise FileNotFoundError(path) from None

    def _bytes(self, fullname: str) -> bytes:
        file = self._file(fullname)
        if file is None:
            raise ImportError(f"The plugin {self.tree.name} has no module {fullname}.", name=fullname)
        return self.tree.files[file]


def load_tree(tree: Tree) -> ModuleType:
    """The plugin's module, run from the bytes of the tree. Raises what it raises, and `PluginError`."""
    if tree.problem:
        raise PluginError(f"The plugin {tree.name} {tree.problem}.")
    finder = Memory(tree)
    known = sys.modules.get(finder.root)
    if known is not None:
        return known
    sys.meta_path.append(finder)
    try:
        return importlib.import_module(finder.root)
    except BaseException:
        sys.meta_path.remove(finder)
        raise
