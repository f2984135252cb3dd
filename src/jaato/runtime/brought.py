"""The plugins that a workspace brings: shown, and run only once a person has vouched for every byte of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jaato.runtime.plugin_tree import Tree, trees_of
from jaato.tools.trust import Trust

Standing = Literal["trusted", "untrusted", "changed", "unusable"]


@dataclass(frozen=True, slots=True)
class Brought:
    """A plugin of the workspace and whether it may run; `changed` since it was trusted is as good as untrusted."""

    tree: Tree
    standing: Standing

    @property
    def said(self) -> str:
        """Why it was not run; empty for a trusted one."""
        match self.standing:
            case "unusable":
                return f"of this workspace {self.tree.problem}; it was not run"
            case "untrusted":
                return (
                    "is brought by this workspace and was not run: read it, then `jaato plugins trust "
                    f"{self.tree.name}`"
                )
            case "changed":
                return (
                    "has changed since it was trusted and was not run: read it again, then `jaato plugins trust "
                    f"{self.tree.name}`"
                )
        return ""


def brought_by(workspace: Path, trust: Trust) -> list[Brought]:
    """What this workspace brings. Raises `ConfigError` for a damaged list of what is trusted."""
    return [Brought(tree, standing_of(tree, trust)) for tree in trees_of(workspace)]


def standing_of(tree: Tree, trust: Trust) -> Standing:
    """Whether exactly these bytes are trusted at this place."""
    if tree.problem:
        return "unusable"
    if trust.trusts(tree.path, tree.content):
        return "trusted"
    return "changed" if trust.known(tree.path) else "untrusted"
