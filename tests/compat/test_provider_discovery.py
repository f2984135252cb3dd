"""How providers of the documented form are found, known ones and installed ones."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jaato.errors import PluginError
from jaato.runtime.embedding.providers import (
    ModelProviderPlugin,
    ProviderPlugin,
    discover_providers,
    load_installed,
    load_provider,
)


@pytest.mark.spec("S3", "Available Providers")
def test_the_documented_providers_are_found() -> None:
    """They are discovered under their names, and loaded as `ModelProviderPlugin`s; an unknown name lists them."""
    found = discover_providers()
    assert {"google_genai", "github_models", "anthropic"} <= found.keys()
    for name in found:
        provider = load_provider(name)
        assert isinstance(provider, ModelProviderPlugin)
        assert provider.name == name
    with pytest.raises(PluginError, match=r"no model provider 'gpt'; found are .*anthropic"):
        load_provider("gpt")


@pytest.mark.spec("S3", "Plugin Kind Identification")
def test_an_installed_provider_is_discovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point of `jaato.model_providers` is loaded by its name; it cannot replace a known provider."""
    information = tmp_path / "mine-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    entries = "mine = mine_provider:Mine\nanthropic = mine_provider:Mine\nbroken = mine_provider:nothing\n"
    (information / "entry_points.txt").write_text(f"[jaato.model_providers]\n{entries}")
    source = "from jaato.runtime.embedding.providers import ProviderPlugin\n\n\nclass Mine(ProviderPlugin):\n    name = 'mine'\n"
    (tmp_path / "mine_provider.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_provider("mine").name == "mine"
    assert load_provider("anthropic").name == "anthropic"
    with pytest.raises(PluginError, match="'broken' cannot be loaded: AttributeError"):
        load_provider("broken")


def test_a_provider_without_the_documented_methods_is_refused() -> None:
    """What is missing is named; a module with `create_provider` is taken."""

    class Half:
        name = "half"

        def initialize(self, config: Any = None) -> None: ...

    with pytest.raises(PluginError, match="'half' has no connect, count_tokens, create_session"):
        load_installed("half", lambda: Half)
    module = ModuleType("made")
    module.create_provider = lambda: ProviderPlugin("made")  # type: ignore[attr-defined]  # as a module would
    assert load_installed("made", lambda: module).name == "made"
