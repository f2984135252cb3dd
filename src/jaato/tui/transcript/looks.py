"""The styles of the transcript, made from the colours of the theme."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.style import Style
from textual.app import App
from textual.color import Color


class Looks(NamedTuple):
    """A style for each kind of text."""

    text: Style
    dim: Style
    strong: Style
    user: Style
    accent: Style
    good: Style
    bad: Style
    warn: Style
    code: Style
    heading: Style
    link: Style
    added: Style
    removed: Style
    hunk: Style
    cursor: Style
    dark: bool
    """Whether the background is dark."""

    def named(self, look: str) -> Style:
        """The style for a colour that the line client names."""
        names = {"dim": self.dim, "bold": self.strong, "red": self.bad, "green": self.good}
        return (names | {"yellow": self.warn, "blue": self.accent, "cyan": self.accent}).get(look, self.text)


def looks_of(app: App[Any]) -> Looks:
    """The styles for the current theme of an application."""
    theme = app.current_theme
    return make_looks(app.theme_variables, dark=theme.dark, ansi=theme.ansi)


def make_looks(variables: Mapping[str, str], *, dark: bool, ansi: bool) -> Looks:
    """The styles for a theme's variables; an ANSI theme keeps the terminal's own colours."""
    if ansi:
        return make_ansi_looks(dark=dark)
    background = Color.parse(variables["background"])
    foreground = Color.parse(variables["foreground"])
    strongest = Color(255, 255, 255) if dark else Color(0, 0, 0)

    def style(name: str, *, bold: bool = False, underline: bool = False) -> Style:
        color = ensure_contrast(Color.parse(variables[name]), background, strongest)
        return Style(color=color, bold=bold, underline=underline)

    def tint(name: str, part: float) -> str:
        return background.blend(Color.parse(variables[name]), part).hex6

    def on_tint(name: str) -> Style:
        own = Color.parse(tint(name, 0.12))
        return Style(color=ensure_contrast(Color.parse(variables[name]), own, strongest), bgcolor=own.hex6)

    return Looks(
        text=Style(color=ensure_contrast(foreground, background, strongest)),
        dim=Style(color=ensure_contrast(foreground.blend(background, 0.35), background, strongest)),
        strong=Style(color=ensure_contrast(foreground, background, strongest), bold=True),
        user=Style(color=foreground.hex6, bgcolor=tint("primary", 0.18)),
        accent=style("primary"),
        good=style("success"),
        bad=style("error"),
        warn=style("warning"),
        code=Style(color=foreground.hex6, bgcolor=tint("foreground", 0.06)),
        heading=style("primary", bold=True),
        link=style("primary", underline=True),
        added=on_tint("success"),
        removed=on_tint("error"),
        hunk=style("primary"),
        cursor=Style(reverse=True),
        dark=dark,
    )


def make_ansi_looks(*, dark: bool) -> Looks:
    """The styles in the sixteen colours of the terminal."""
    return Looks(
        text=Style(),
        dim=Style(dim=True),
        strong=Style(bold=True),
        user=Style(bold=True),
        accent=Style(color="cyan"),
        good=Style(color="green"),
        bad=Style(color="red"),
        warn=Style(color="yellow"),
        code=Style(),
        heading=Style(color="cyan", bold=True),
        link=Style(color="cyan", underline=True),
        added=Style(color="green"),
        removed=Style(color="red"),
        hunk=Style(color="cyan"),
        cursor=Style(reverse=True),
        dark=dark,
    )


def ensure_contrast(color: Color, background: Color, strongest: Color) -> str:
    """A colour, moved towards the strongest one until text in it can be read on the background (contrast 4.5)."""
    for step in range(11):
        mixed = color.blend(strongest, step / 10)
        if compute_contrast(mixed, background) >= 4.5:
            return mixed.hex6
    return strongest.hex6


def compute_contrast(one: Color, other: Color) -> float:
    """The contrast ratio of two colours (WCAG 2)."""
    lighter, darker = sorted((compute_luminance(one), compute_luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def compute_luminance(color: Color) -> float:
    """The relative luminance of a colour (WCAG 2)."""
    parts = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized
    )
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))
