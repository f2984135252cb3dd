"""A scrolling view of lines that are laid out for its width: questions, previews, listings."""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from jaato.tui.transcript.lines import Lines
from jaato.tui.transcript.looks import Looks, looks_of

LayOut = Callable[[int, Looks], list[Strip] | Lines]


class LinesView(ScrollView, can_focus=True):
    """Shows what a function lays out."""

    DEFAULT_CSS = """
    LinesView { height: auto; scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 as Textual names it
        super().__init__(id=id)
        self._lay_out: LayOut = lambda _width, _looks: []
        self._strips: list[Strip] | Lines = []
        self._width = 0
        self._looks: Looks | None = None
        self._key: object = None

    @property
    def looks(self) -> Looks:
        """The styles of the current theme."""
        if self._looks is None:
            self._looks = looks_of(self.app)
        return self._looks

    @property
    def text(self) -> str:
        """The lines as text."""
        return "\n".join(strip.text.rstrip() for strip in self._strips)

    def show(self, lay_out: LayOut, *, stays: bool = False) -> None:
        """Show other lines, from the first one; with `stays` from where it is scrolled to, or to the end if that is visible."""
        y, at_end = self.scroll_y, self.scroll_y >= self.max_scroll_y
        self._lay_out = lay_out
        if not stays:
            self.scroll_to(y=0, animate=False, force=True)
        self._lay_out_again()
        if stays:
            self.scroll_to(y=self.max_scroll_y if at_end else y, animate=False, force=True, immediate=True)

    def show_if_new(self, key: object, lay_out: LayOut, *, stays: bool = False) -> None:
        """Show other lines, unless those of an equal key are shown."""
        if key != self._key:
            self._key = key
            self.show(lay_out, stays=stays)

    def notify_style_update(self) -> None:
        """Make the styles again after a change of the theme."""
        super().notify_style_update()
        self._looks = None
        if self.is_mounted:
            self._lay_out_again()

    def on_resize(self) -> None:
        """Lay the lines out for the width."""
        if self._width != self.text_width:
            self._lay_out_again()

    @property
    def text_width(self) -> int:
        """The columns of a line."""
        return max(2, (self.size.width or self.app.size.width) - 1)

    def _lay_out_again(self) -> None:
        self._width = self.text_width
        self._strips = self._lay_out(self._width, self.looks)
        self.virtual_size = Size(self._width, len(self._strips))
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there are."""
        del container, viewport, width
        return len(self._strips)

    def render_line(self, y: int) -> Strip:
        """A visible line."""
        at = self.scroll_offset.y + y
        strip = self._strips[at] if at < len(self._strips) else Strip([], 0)
        return strip.crop_extend(0, self.size.width, self.rich_style).apply_style(self.rich_style)
