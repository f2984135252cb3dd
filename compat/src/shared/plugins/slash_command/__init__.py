"""The documented home of `SlashCommandPlugin`."""

from __future__ import annotations

from jaato.runtime.plugins.standalone import SlashCommandPlugin

__all__ = ["SlashCommandPlugin"]
