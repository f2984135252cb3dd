"""A screen with a list on the left, a filter above it, and what is known of the marked row on the right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from jaato.errors import JaatoError
from jaato.tui.lines_view import LinesView
from jaato.tui.link import Link
from jaato.tui.preferences import name_key
from jaato.tui.transcript.blocks import lay_out_line
from jaato.tui.transcript.lines import clean
from jaato.tui.transcript.looks import Looks

Line = tuple[str, str]
Item = TypeVar("Item")
LOADING = ("loading …", "dim")
PREVIEW_LINES = 9
"""Lines of a terminal that has room for a preview beside the list."""
FILTER_S = 0.25
"""How long after the last key a search is sent."""


class Row(NamedTuple, Generic[Item]):
    """A row of the list: its id, its text, what it stands for, and words that the filter finds beside the text."""

    id: str
    text: str
    item: Item
    words: str = ""


class Action(NamedTuple, Generic[Item]):
    """What a key does with the marked row: a word for it, and whether the screen is left before."""

    label: str
    run: Callable[[Row[Item]], Awaitable[object]]
    leaves: bool = False


class Subject(ABC, Generic[Item]):
    """What a list screen shows."""

    title = ""
    empty = "There is nothing here."
    searches = False
    """Whether `rows` looks for the words of the filter itself."""
    refresh_s = 0.0
    """How often rows and preview are loaded again while they are shown; 0 for never. Then a preview that shows its end
    follows it."""

    @abstractmethod
    async def rows(self, query: str) -> Sequence[Row[Item]]:
        """The rows. Raises `JaatoError`."""

    @abstractmethod
    async def preview(self, row: Row[Item]) -> Sequence[Line]:
        """The lines about a row. Raises `JaatoError`."""

    @property
    def has_more(self) -> bool:
        """Whether `more_rows` has any."""
        return False

    async def more_rows(self) -> Sequence[Row[Item]]:
        """The rows after those that were given. Raises `JaatoError`."""
        return []

    def actions(self) -> Mapping[str, Action[Item]]:
        """What keys do; `enter` is the first one."""
        return {}


class LinkSubject(Subject[Item]):
    """Shows what a session, or its server, is asked for."""

    def __init__(self, link: Link) -> None:
        self._link = link


class ListScreen(ModalScreen[None]):
    """Shows a subject. Typing filters, arrows move, Enter and the keys at the bottom act, Escape goes back."""

    CSS = """
    ListScreen { align: center middle; background: $background 60%; }
    ListScreen > Vertical { width: 96%; height: 92%; border: round $primary; background: $surface; padding: 0 1;
        border-title-color: $primary; border-title-style: bold; }
    ListScreen Input { border: none; height: 1; padding: 0 1; background: $boost; }
    ListScreen Input:focus { border: none; }
    ListScreen Horizontal { height: 1fr; margin-top: 1; }
    ListScreen OptionList { width: 2fr; height: 100%; border: none; padding: 0; background: $surface;
        scrollbar-size-vertical: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    ListScreen LinesView { width: 3fr; height: 100%; border-left: solid $primary 40%; padding: 0 0 0 1; }
    ListScreen.-narrow Horizontal { layout: vertical; }
    ListScreen.-narrow OptionList { width: 100%; height: 2fr; }
    ListScreen.-narrow LinesView { width: 100%; height: 3fr; border-left: none; border-top: solid $primary 40%; }
    ListScreen.-low > Vertical { width: 100%; height: 100%; border: none; }
    ListScreen.-low Horizontal { margin-top: 0; }
    ListScreen.-low LinesView { display: none; }
    ListScreen.-low .hint { height: 1; }
    ListScreen .hint { color: $text-muted; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", priority=True),
        Binding("down", "move(1)", "Next", show=False, priority=True),
        Binding("up", "move(-1)", "Previous", show=False, priority=True),
        Binding("pagedown", "page(1)", "Down", show=False, priority=True),
        Binding("pageup", "page(-1)", "Up", show=False, priority=True),
    ]

    def __init__(self, subject: Subject[Any]) -> None:
        super().__init__()
        self.subject = subject
        self._rows: list[Row[Any]] = []
        self._shown: list[Row[Any]] = []
        self._loading_more = False
        self._loads = self._loaded = 0
        """How often the rows were asked for, and the number of the last time that has ended."""
        self._filter_input = Input(
            placeholder="type to search" if subject.searches else "type to filter", id="filter"
        )
        self._options = OptionList(id="rows", markup=False)
        self._lines = LinesView(id="preview")
        self._box = Vertical()
        self._box.border_title = Text(subject.title)

    def compose(self) -> ComposeResult:
        """Filter, list, preview, keys."""
        with self._box:
            yield self._filter_input
            with Horizontal():
                yield self._options
                yield self._lines
            yield Static(self._keys(), classes="hint")

    def _keys(self) -> Text:
        keys = [f"{name_key(key)} {action.label}" for key, action in self.subject.actions().items()]
        return Text(" · ".join([*keys, "Esc back"]))

    def on_mount(self) -> None:
        """Load the rows."""
        self._options.can_focus = False
        self._show_lines([LOADING])
        self._search()
        if self.subject.refresh_s:
            self.set_interval(self.subject.refresh_s, self._refresh)

    def _refresh(self) -> None:
        if self._loaded == self._loads:
            self._search()

    def on_resize(self, event: events.Resize) -> None:
        """Put list and preview below each other where it is narrow; a low screen has room for the list alone."""
        self.set_class(event.size.width < 100, "-narrow")
        self.set_class(event.size.height < PREVIEW_LINES, "-low")

    async def load(self) -> None:
        """Load the rows again; the marked one stays marked."""
        self._loads += 1
        load = self._loads
        query = self._filter_input.value.strip()
        try:
            rows = list(await self.subject.rows(query if self.subject.searches else ""))
        except JaatoError as error:
            self._show_lines([(str(error), "red")])
            return
        finally:
            self._loaded = load
        if load == self._loads and self.is_attached:
            self._rows = rows
            self._filter()
            self._show_count()

    @work(exclusive=True, group="search")
    async def _load_more(self) -> None:
        """Add the rows after the last one."""
        self._loading_more = True
        try:
            rows = await self.subject.more_rows()
        except JaatoError as error:
            self._show_lines([(str(error), "red")])
            return
        finally:
            self._loading_more = False
        if self.is_attached:
            self._rows += rows
            self._shown += rows
            self._options.add_options(map(make_option, rows))
            self._show_count()

    def _load_more_at_end(self) -> bool:
        """Load more at the last row; whether there are any."""
        is_at_end = self.marked is not None and self.marked is self._shown[-1] and self.subject.has_more
        if is_at_end and not self._loading_more:
            self._load_more()
        return is_at_end

    def _show_count(self) -> None:
        """Say in the title how many rows are loaded, where there are more."""
        more = f" ({len(self._rows)} loaded, more at the end of the list)" if self.subject.has_more else ""
        self._box.border_title = Text(f"{self.subject.title}{more}")

    def _filter(self) -> None:
        words = [] if self.subject.searches else self._filter_input.value.lower().split()
        before = self.marked
        shown, self._shown = (
            self._shown,
            [row for row in self._rows if all(word in f"{row.text} {row.words}".lower() for word in words)],
        )
        if self.marked is not None and [row[:2] for row in shown] == [row[:2] for row in self._shown]:
            self._preview(self.marked)
            return
        options = self._options
        options.clear_options()
        options.add_options(map(make_option, self._shown))
        at = next((at for at, row in enumerate(self._shown) if before and row.id == before.id), 0)
        if self._shown:
            options.highlighted = at
        else:
            self._show_lines([(self.subject.empty if not words else "Nothing fits.", "dim")])

    @property
    def marked(self) -> Row[Any] | None:
        """The marked row."""
        at = self._options.highlighted
        return self._shown[at] if at is not None and at < len(self._shown) else None

    def on_input_changed(self) -> None:
        """Filter, or search a moment after the last key."""
        if self.subject.searches:
            self.set_timer(FILTER_S, self._search)
        else:
            self._filter()

    @work(exclusive=True, group="search")
    async def _search(self) -> None:
        """Load the rows for what is typed now, while keys are taken whatever the server does."""
        await self.load()

    def on_option_list_option_highlighted(self) -> None:
        """Show what is known of the row; at the last one load more."""
        if (row := self.marked) is not None:
            self._preview(row)
            self._load_more_at_end()

    @work(exclusive=True)
    async def _preview(self, row: Row[Any]) -> None:
        try:
            lines = await self.subject.preview(row)
        except JaatoError as error:
            lines = [(str(error), "red")]
        if self.marked is not None and self.marked.id == row.id:
            self._show_lines(lines)

    def _show_lines(self, lines: Sequence[Line]) -> None:
        if not self.is_attached:  # it was left meanwhile
            return
        self._lines.show(
            lambda width, looks: lay_out_lines(lines, width, looks), stays=bool(self.subject.refresh_s)
        )

    def action_move(self, by: int) -> None:
        """Mark another row; the first one follows the last, unless more are loaded."""
        if by > 0:
            if not self._load_more_at_end():
                self._options.action_cursor_down()
        else:
            self._options.action_cursor_up()

    def action_page(self, by: int) -> None:
        """Scroll what is known of the row."""
        view = self._lines
        view.scroll_relative(y=by * max(1, view.size.height - 2), animate=False, force=True)

    async def on_key(self, event: events.Key) -> None:
        """Act on the marked row."""
        action = self.subject.actions().get(event.key)
        if action is not None and event.key != "enter":
            event.stop()
            await self._act(action)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: the first action."""
        event.stop()
        if (action := self.subject.actions().get("enter")) is not None:
            await self._act(action)

    async def on_option_list_option_selected(self) -> None:
        """A click on the marked row: the first action."""
        if (action := self.subject.actions().get("enter")) is not None:
            await self._act(action)

    async def _act(self, action: Action[Any]) -> None:
        if (row := self.marked) is None:
            return
        if action.leaves:
            self.dismiss(None)
            await action.run(row)
        else:
            self._run(partial(action.run, row))

    @work
    async def _run(self, act: Callable[[], Awaitable[object]]) -> None:
        try:
            result = await act()
        except JaatoError as error:
            result = [(str(error), "red")]
        await self.load()
        if isinstance(result, str):
            result = [(result, "")]
        if isinstance(result, list):
            self._show_lines(result)


def make_option(row: Row[Any]) -> Option:
    """A row of the list on one line."""
    return Option(Content(clean(row.text).replace("\n", " ")))


def lay_out_lines(lines: Sequence[Line], width: int, looks: Looks) -> list[Strip]:
    """Lines in their colours; those of a table stay in one piece where they fit."""
    found: list[Strip] = []
    for text, look in lines:
        for part in clean(text).split("\n"):
            found += lay_out_line(part, width, looks.named(look))
    return found
