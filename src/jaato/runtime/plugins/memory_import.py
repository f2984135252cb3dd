"""Import a plugin of a workspace from the bytes that were trusted, not from its files as they are by now."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

from jaato.errors import PluginError
from jaato.runtime.plugins.workspace import PluginFiles


class MemoryImporter(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc] # its stub
    """Finds and loads the modules of one plugin, below a unique name, from its bytes alone.

    Only source is run: no byte code, no extension module. `pkgutil.get_data` gives the plugin's other files.
    """

    def __init__(self, tree: PluginFiles) -> None:
        self.tree = tree
        self.root = f"jaato_plugin_{tree.name}_{tree.digest[-16:]}"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module of this name, if the plugin has it."""
        file = self._file(fullname)
        if file is None:
            return None
        spec = importlib.machinery.ModuleSpec(
            fullname, self, origin=self.get_filename(fullname), is_package=file.endswith("__init__.py")
        )
        spec.has_location = True  # and no search location: nothing of a package is found on the disk
        return spec

    def _file(self, fullname: str) -> str | None:
        if fullname == self.root:
            return next(one for one in (f"{self.tree.name}.py", "__init__.py") if one in self.tree.files)
        if not fullname.startswith(f"{self.root}."):
            return None
        below = fullname[len(self.root) + 1 :].replace(".", "/")
        return next((one for one in (f"{below}.py", f"{below}/__init__.py") if one in self.tree.files), None)

    def get_filename(self, fullname: str) -> str:
        """Where a module was read from, for tracebacks. Raises `ImportError`."""
        file = self._file(fullname)
        if file is None:
            raise ImportError(f"The plugin {self.tree.name} has no module {fullname}.", name=fullname)
        path = self.tree.path
        return str(path if path.suffix == ".py" else path / file)

    def get_data(self, path: str) -> bytes:
        """A file of the plugin, as it was when it was trusted. Raises OSError."""
        base = str(self.tree.path)
        below = path[len(base) :].lstrip("/") if path.startswith(base) else path
        try:
            return self.tree.files[below or f"{self.tree.name}.py"]
        except KeyError:
            raise FileNotFoundError(path) from None


def import_from_memory(tree: PluginFiles) -> ModuleType:
    """The plugin's module, run from the bytes of the tree. Raises what it raises, and `PluginError`."""
    if tree.problem:
        raise PluginError(f"The plugin {tree.name} {tree.problem}.")
    finder = MemoryImporter(tree)
    known = sys.modules.get(finder.root)
    if known is not None:
        return known
    sys.meta_path.append(finder)
    try:
        return importlib.import_module(finder.root)
    except BaseException:
        sys.meta_path.remove(finder)
        raise
