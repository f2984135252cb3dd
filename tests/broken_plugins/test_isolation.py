"""Plugins without manners: what they close, call themselves and leave unanswered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.broken_plugins.plugins import plugin_text, schemas
from tests.broken_plugins.test_broken_plugins import load_plugin

from jaato.runtime.plugins import lifecycle as wiring
from jaato.runtime.plugins.isolation import redirect_stdio


def test_what_a_plugin_closes_stays_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plugin that closes stdout and stdin while it is loaded closes neither, nor stderr; the next one still prints."""
    before = (sys.stdin, sys.stdout, sys.stderr)
    registry = load_plugin(
        tmp_path, plugin_text(after="import sys\nsys.stdout.close()\nsys.stdin.close()\nprint('still')")
    )
    registry.shutdown()
    assert registry.problems == {}
    assert (sys.stdin, sys.stdout, sys.stderr) == before
    shown = capsys.readouterr()
    assert "still" in shown.err
    assert shown.out == ""


def test_plugins_loaded_in_two_threads_put_the_terminal_back() -> None:
    """Whoever leaves last restores what the first one found."""
    before = (sys.stdin, sys.stdout)
    first, second = redirect_stdio(), redirect_stdio()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert (sys.stdin, sys.stdout) == before


def test_a_name_is_asked_for_once(tmp_path: Path) -> None:
    """A plugin that gives itself another name each time is known by the first."""
    text = plugin_text(
        "asked = 0\n@property\ndef name(self):\n    type(self).asked += 1\n    return f'beast{self.asked}'"
    )
    registry = load_plugin(tmp_path, text)
    beasts = [name for name in registry.list_exposed() if name.startswith("beast")]
    assert len(beasts) == 1
    toolset = registry.toolset(beasts[0])
    assert toolset is not None
    assert toolset.name == beasts[0]
    registry.shutdown()
    assert registry.list_exposed() == []


def test_a_module_that_answers_nothing_is_no_plugin(tmp_path: Path) -> None:
    """One whose attributes cannot be had is passed over, and the others are found."""
    text = "import sys\nclass M(type(sys)):\n    def __getattr__(self, name): raise KeyError(name)\n"
    registry = load_plugin(tmp_path, text + "sys.modules[__name__].__class__ = M")
    assert {"cli", "todo"} <= {*registry.list_exposed()}
    registry.shutdown()


def test_a_description_that_is_no_unicode_is_made_some(tmp_path: Path) -> None:
    """Half a surrogate in it would end every request."""
    registry = load_plugin(tmp_path, schemas("[ToolSchema('growl', 'Growl \\ud800 loud.', PARAMETERS)]"))
    found = registry.catalog.find("growl")
    assert found is not None
    assert found.tool.spec.description.encode()
    registry.shutdown()


def test_a_plugin_that_hangs_at_a_new_workspace_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are told of it, and its problem is reported."""
    monkeypatch.setattr(wiring, "NOTIFY_TIMEOUT_S", 0.05)
    text = "told = []\ndef set_workspace_path(self, path):\n    self.told.append(path)\n    import time\n"
    registry = load_plugin(tmp_path, plugin_text(text + "    if len(self.told) > 1: time.sleep(30)"))
    (tmp_path / "new").mkdir()
    registry.set_workspace_path(tmp_path / "new")
    assert registry.workspace == tmp_path / "new"
    assert "has not answered" in registry.problems["animal"]
    registry.shutdown()
