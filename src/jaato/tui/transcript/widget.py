"""The widget that shows a layout: it draws the visible lines alone, stays where it was scrolled to, and follows the end."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.cells import cell_len
from textual import events, on
from textual.binding import Binding
from textual.events import Click
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollTo, ScrollUp
from textual.selection import Selection
from textual.strip import Strip

from jaato.tui.transcript.blocks import Block, CallBlock, UserBlock
from jaato.tui.transcript.layout import Layout
from jaato.tui.transcript.looks import Looks, looks_of

USER_S = 1.0
"""How long after a key or the wheel a movement is the user's."""
NEAR_TOP = 5
"""Lines from the top at which earlier ones are asked for."""


class Transcript(ScrollView, can_focus=True):
    """The conversation of one agent. `show` gives it another layout; `refresh_blocks` draws what has changed."""

    DEFAULT_CSS = """
    Transcript { height: 1fr; background: $background; scrollbar-size-vertical: 1; overflow-x: hidden;
                 overflow-y: scroll; }
    """
    BINDINGS = [
        Binding("tab", "app.answer", "To the question, or the prompt", show=False, id="transcript.leave"),
        Binding("escape", "app.focus_prompt", "To the prompt", show=False),
        Binding("up", "move(-1)", "Previous block", show=False, id="transcript.previous"),
        Binding("down", "move(1)", "Next block", show=False, id="transcript.next"),
        Binding("enter,space", "fold", "Fold or unfold", show=False, id="transcript.toggle"),
        Binding("home", "scroll_home", "First line", show=False, id="transcript.first"),
        Binding("end", "follow", "Newest line", show=False, id="transcript.last"),
        Binding("pageup", "page_up", "Page up", show=False, id="transcript.page_up"),
        Binding("pagedown", "page_down", "Page down", show=False, id="transcript.page_down"),
    ]

    class NearTop(Message):
        """The first lines are visible; earlier ones may be wanted."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 as Textual names it
        super().__init__(id=id)
        self.layout_ = Layout()
        self.following = True
        """Whether the newest line stays visible."""
        self.marked: Block | None = None
        """The block that the keys fold."""
        self._looks: Looks | None = None
        self._moving = False
        self._scrolled_at = 0.0
        """When the user has scrolled last."""
        self._top: tuple[Block, int] | None = None
        """The first visible line while the end is not followed: a block, and the number of its line."""
        self._letters: int | None = None
        """How many letters of the block come before, which stays in other sizes; None until there was one."""
        self._painted: tuple[int, int, list[Strip]] = (-1, 0, [])
        """First line, width and lines of what was painted last."""

    @property
    def allow_select(self) -> bool:
        """Its text can be selected."""
        return True

    @property
    def looks(self) -> Looks:
        """The styles of the current theme."""
        if self._looks is None:
            self._looks = looks_of(self.app)
        return self._looks

    @property
    def text_width(self) -> int:
        """The columns of a line."""
        return max(20, self.scrollable_content_region.width or self.size.width or 80)

    def notify_style_update(self) -> None:
        """Make the styles again after a change of the theme."""
        super().notify_style_update()
        self._looks = None
        self.refresh()

    @property
    def marked_task(self) -> str:
        """The background task of the marked call; empty without one."""
        return self.marked.task_id if isinstance(self.marked, CallBlock) else ""

    def show_layout(self, layout: Layout) -> None:
        """Show the conversation of another agent, from its end."""
        self.layout_, self.marked, self.following, self._top = layout, None, True, None
        self.refresh_blocks()

    def on_resize(self, _event: events.Resize) -> None:
        """Keep the text that was at the top there."""
        self._rewrap()
        self.refresh_blocks()

    def refresh_blocks(self) -> None:
        """Draw the blocks as they are now; the reader stays where they read."""
        layout, height = self.layout_, self.scrollable_content_region.height or self.size.height
        if layout.width != self.text_width:
            self._rewrap()
        if self.following:
            layout.settle(0, height, self.looks, from_end=True)
        else:
            grown = layout.settle(round(self.scroll_y), height, self.looks, from_end=False)
            if grown:
                self._move_to(self.scroll_y + grown)
        self._set_size()
        if self.following:
            self._move_to(self.max_scroll_y)
        self._repaint()

    def _repaint(self) -> None:
        """Repaint the visible lines that differ from those painted last."""
        top, width, height = self.scroll_offset.y, self.size.width, self.size.height
        lines = [self.layout_.line(top + y, self.looks)[0] for y in range(height)]
        painted, self._painted = self._painted, (top, width, lines)
        if painted[:2] != (top, width) or len(painted[2]) != height:
            self.refresh()
            return
        regions = [
            Region(0, y, width, 1)
            for y, (before, now) in enumerate(zip(painted[2], lines, strict=True))
            if before is not now and before != now
        ]
        if regions:
            self.refresh(*regions)

    def show_block(self, block: Block, words: Sequence[str] = ()) -> None:
        """Scroll to a block, there to the first line with one of the words, and mark it."""
        layout = self.layout_
        if block in layout.blocks:
            self.following, self.marked = False, block
            number = self._find_line(block, words)
            if number is None and block.can_fold and block.folded:
                block.folded = False
                block.changed()
                number = self._find_line(block, words)
            y = layout.find_text(block, -1, self.looks) + (number or 0)
            self._set_size()
            self._move_to(max(0, y - 2))
            self.refresh_blocks()
            self._remember_top()
            self.refresh()

    def _find_line(self, block: Block, words: Sequence[str]) -> int | None:
        """The first line of a block with one of the words; 0 without words, None where no line has one."""
        lines = enumerate(block.strips(self.layout_.width, self.looks))
        found = (number for number, strip in lines if any(word in strip.text.lower() for word in words))
        return next(found, None) if words else 0

    def _rewrap(self) -> None:
        """Take the width, and scroll to the text that was at the top."""
        layout, top = self.layout_, None if self.following else self._top
        if top is not None and self._letters is None:
            self._letters = layout.count_before(*top, self.looks)
        layout.set_width(self.text_width)
        if top is not None and self._letters is not None and top[0] in layout.blocks:
            y = layout.find_text(top[0], self._letters, self.looks)
            self._set_size()
            self._move_to(y)

    def _remember_top(self) -> None:
        """Remember the text at the top, which stays there when the size changes."""
        _, block, number = self.layout_.line(round(self.scroll_y), self.looks)
        self._top = None if block is None or self.following else (block, number)
        self._letters = None

    def _set_size(self) -> None:
        size = Size(self.text_width, self.layout_.height)
        if size != self.virtual_size:
            self.virtual_size = size

    def _move_to(self, y: float) -> None:
        self._moving = True
        try:
            self.scroll_to(y=y, animate=False, force=True, immediate=True)
        finally:
            self._moving = False

    def shift(self, lines: int) -> None:
        """Stay at the same text after lines were added above it (removed: negative)."""
        self._set_size()
        if not self.following:
            self._move_to(max(0, self.scroll_y + lines))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Lay out what comes into view; the end is followed again once it is reached."""
        super().watch_scroll_y(old_value, new_value)
        if self._moving or round(old_value) == round(new_value):
            return
        is_resized = self.size != Size(self._painted[1], len(self._painted[2]))
        if not is_resized and time.monotonic() - self._scrolled_at < USER_S:
            self.following = new_value >= self.max_scroll_y
        elif self.following or is_resized:
            self.call_later(self.refresh_blocks)  # another size or theme has moved it
            return
        height = self.scrollable_content_region.height
        grown = self.layout_.settle(round(new_value), height, self.looks, from_end=False)
        self._set_size()
        if grown and not self.following:
            self._move_to(new_value + grown)
        self._remember_top()
        if new_value <= NEAR_TOP:
            self.post_message(self.NearTop())

    @on(events.Key)
    @on(events.MouseDown)
    @on(events.MouseScrollUp)
    @on(events.MouseScrollDown)
    @on(ScrollTo)
    @on(ScrollUp)
    @on(ScrollDown)
    def scroll_by_user(self) -> None:
        """The user scrolls, which decides whether the end is followed."""
        self._scrolled_at = time.monotonic()

    # --- drawing -------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """A visible line."""
        width, at = self.size.width, self.scroll_offset.y + y
        strip, block, number = self.layout_.line(at, self.looks)
        if block is not None and block is self.marked and self.has_focus and number == int(block.gap):
            strip = strip.apply_style(self.looks.cursor)
        strip = strip.crop_extend(0, width, self.rich_style)
        if (selection := self.text_selection) is not None:
            strip = self._mark_selection(strip, selection.get_span(at))
        return strip.apply_style(self.rich_style).apply_offsets(0, at)

    def _mark_selection(self, strip: Strip, span: tuple[int, int] | None) -> Strip:
        if span is None:
            return strip
        text = strip.text
        start = cell_len(text[: span[0]])
        end = strip.cell_length if span[1] < 0 else cell_len(text[: span[1]])
        if start >= end:
            return strip
        style = self.screen.get_component_rich_style("screen--selection")
        parts = [strip.crop(0, start), strip.crop(start, end), strip.crop(end, strip.cell_length)]
        marked = Strip(
            [segment.__class__(segment.text, (segment.style or style) + style) for segment in parts[1]]
        )
        return Strip.join([parts[0], marked, parts[2]])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self.layout_.height - 1
        lines = [
            self.layout_.line(y, self.looks)[0].text.rstrip() or " "
            for y in range(first, min(last, self.layout_.height - 1) + 1)
        ]
        start = Offset(selection.start.x, 0) if selection.start is not None else None
        end = Offset(selection.end.x, selection.end.y - first) if selection.end is not None else None
        return Selection(start, end).extract("\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        del selection
        self.refresh()

    # --- folding -------------------------------------------------------------------------------------------------

    def fold(self, block: Block) -> None:
        """Fold or unfold a block."""
        if block.can_fold:
            block.folded = not block.folded
            block.changed()
            if self.following and not block.folded:
                self.following = self.layout_.blocks[-1] is block
            self.refresh_blocks()
            self._remember_top()

    def on_click(self, event: Click) -> None:
        """Fold or unfold what was clicked."""
        _, block, number = self.layout_.line(self.scroll_offset.y + event.y, self.looks)
        is_head = block is not None and (number == int(block.gap) or isinstance(block, UserBlock))
        if block is not None and block.can_fold and is_head and self.text_selection is None:
            self.marked = block
            self.fold(block)

    def action_fold(self) -> None:
        """Fold or unfold the marked block, or the newest one."""
        if self.marked is None:
            self.action_move(-1)
        if self.marked is not None:
            self.fold(self.marked)

    def action_move(self, by: int) -> None:
        """Mark the next block that can be folded, and scroll to it."""
        blocks = self.layout_.blocks
        at = blocks.index(self.marked) if self.marked in blocks else len(blocks) if by < 0 else -1
        at += by
        while 0 <= at < len(blocks) and not blocks[at].can_fold:
            at += by
        if not 0 <= at < len(blocks):
            self.scroll_relative(y=by * 3, animate=False)
            return
        self.marked = blocks[at]
        top, height = self.layout_.starts[at], self.scrollable_content_region.height
        if not self.scroll_y <= top < self.scroll_y + height - 2:
            self.scroll_to(y=max(0, top - height // 3), animate=False, force=True)
        self.refresh()

    def action_follow(self) -> None:
        """Go to the newest line, and stay there."""
        self.following = True
        self.refresh_blocks()
