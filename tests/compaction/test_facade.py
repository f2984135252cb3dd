"""Strategies through the documented doors: found, loaded, set on a client, configured by the environment."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compaction.test_room import Strategy
from tests.kit import say
from tests.spec.conftest import connect
from tests.spec.facades import Connect

from jaato.abc.compactor import GCConfig, GCPlugin, GCResult
from jaato.errors import ConfigError, PluginError
from jaato.protocol.messages import Message
from jaato.runtime.plugins.discovery import GC_PLUGINS, discover_gc_plugins, load_gc_plugin

__all__ = ["connect"]


@pytest.mark.spec("S3", "GC Plugins (Separate System)", "S3.gc.1")
def test_a_strategy_is_found_loaded_and_initialised() -> None:
    """`load_gc_plugin` gives an object of the documented protocol; an unknown name is told with those there are."""
    assert "gc_truncate" in discover_gc_plugins()
    plugin = load_gc_plugin("gc_truncate", {"anything": 1})
    assert isinstance(plugin, GCPlugin)
    assert plugin.name == "gc_truncate"
    with pytest.raises(PluginError, match=r"No GC strategy 'gc_lru'; there are .*gc_truncate"):
        load_gc_plugin("gc_lru")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (7, "no initialize"),
        (dict, "no initialize"),
        (lambda: None, "no initialize"),
        (object(), "no initialize"),
    ],
)
def test_what_is_no_strategy_says_what_it_lacks(given: Any, words: str) -> None:
    """The error names the strategy and the methods it has not."""
    with pytest.raises(PluginError, match=words):
        GC_PLUGINS.make(given, "mine")


@pytest.mark.spec("C10", "Environment variables and files", "C10.environment.7")
def test_the_threshold_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """80.0, unless JAATO_GC_THRESHOLD says otherwise; what makes no sense is refused."""
    monkeypatch.delenv("JAATO_GC_THRESHOLD", raising=False)
    assert (GCConfig().threshold_percent, GCConfig().preserve_recent_turns, GCConfig().auto_trigger) == (
        80.0,
        5,
        True,
    )
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "66.5")
    assert GCConfig().threshold_percent == 66.5
    assert GCConfig(75.0).threshold_percent == 75.0
    for wrong in ("lots", "0", "101", "nan"):
        monkeypatch.setenv("JAATO_GC_THRESHOLD", wrong)
        with pytest.raises(ConfigError):
            GCConfig()


@pytest.mark.spec("C5", "Client, runtime, session", "C5.client.8")
def test_a_client_hands_the_strategy_to_the_session_it_has_and_to_later_ones(connect: Connect) -> None:
    """`set_gc_plugin` works before and after the session begins; None takes the strategy away; replies stay whole."""

    def all_but_the_first(history: list[Message]) -> Any:
        return history[1:], GCResult()

    client = connect([say("one" * 200), say("two"), say("three"), say("four")])
    strategy = Strategy(all_but_the_first)
    strategy.when = lambda: (strategy.asked > 1, "full")
    client.set_gc_plugin(strategy, GCConfig(50.0))
    client.send_message("a" * 1000)
    assert strategy.asked == 1
    assert client.send_message("b") == "two"
    assert strategy.collected >= 1
    assert not any(message.text.startswith("aaa") for message in client.get_history())
    client.reset_session()
    client.send_message("c")
    asked = strategy.asked
    assert asked == 3
    client.set_gc_plugin(None)
    client.send_message("d")
    assert strategy.asked == asked
    with pytest.raises(ConfigError, match="No strategy"):
        client.get_session().compact()
