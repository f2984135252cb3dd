"""The application: it runs the link to the session, and its keys work on the screen and the session."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.markup import escape
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, TextArea

from jaato.abc.asker import Answer
from jaato.cli.arguments.values import is_command
from jaato.errors import InvalidArguments, JaatoError
from jaato.protocol.events import SessionInfo
from jaato.protocol.events.state import State
from jaato.tui.driver import TerminalDriver, is_open_terminal
from jaato.tui.link import HISTORY_PAGE, Connection, Link
from jaato.tui.preferences import KeyNames, Preferences
from jaato.tui.prompt.area import PromptArea
from jaato.tui.prompt.completion import find_action, list_commands
from jaato.tui.prompt.editor import Prompt
from jaato.tui.questions.dialogs import ConfirmDialog, Typed
from jaato.tui.questions.lines import Question
from jaato.tui.questions.panel import QuestionPanel
from jaato.tui.screens.catalog import SCREENS, make_subject
from jaato.tui.screens.keys import KeysScreen
from jaato.tui.screens.list_screen import ListScreen
from jaato.tui.session_screen import SessionScreen
from jaato.tui.transcript.lines import clean
from jaato.tui.transcript.widget import Transcript

FRAME_S = 1 / 30
LEAVE_S = 2.0
"""How long the second Ctrl+C may come after the first."""
LIKE_ANSWERS = ("y", "n", "yes", "no")
"""Texts that are meant as an answer while a question waits: as messages they would not be one."""


class FullScreenClient(App[int], inherit_bindings=False):
    """The full-screen client of one session."""

    TITLE = "jaato"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop the agent", show=False, id="app.stop"),
        Binding("ctrl+c", "interrupt", "Stop; leave (twice)", id="app.interrupt", priority=True),
        Binding("f2", "next_agent", "Next agent", id="app.next_agent", priority=True),
        Binding("pageup", "scroll(-1)", "Scroll up", show=False, id="app.page_up"),
        Binding("pagedown", "scroll(1)", "Scroll down", show=False, id="app.page_down"),
        Binding("ctrl+end", "newest", "Newest line", show=False, id="app.newest"),
        Binding("ctrl+o", "unfold", "Unfold the newest", show=False, id="app.unfold"),
        Binding("f1", "open('keys')", "Keys", show=False, id="app.keys", priority=True),
        Binding("f3", "open('sessions')", "Sessions", show=False, id="app.sessions"),
        Binding("f4", "open('plans')", "Plans", show=False, id="app.plans"),
        Binding("f5", "open('tasks')", "Background tasks", show=False, id="app.tasks"),
        Binding("f6", "popup", "Interactive session", show=False, id="app.popup", priority=True),
        Binding("ctrl+f", "open('search')", "Search", show=False, id="app.search", priority=True),
        Binding("ctrl+r", "open('history')", "Messages sent before", show=False, id="app.history"),
        Binding("f9", "mouse", "Mouse", show=False, id="app.mouse"),
    ]

    def __init__(
        self,
        connection: Connection,
        state_dir: Path,
        preferences: Preferences,
        *,
        first: str = "",
        draft_key: str = "",
    ) -> None:
        super().__init__(
            TerminalDriver,
            ansi_color=True if preferences.no_color else None,  # of which Textual can remove the colours
        )
        self.preferences = preferences
        self.theme = preferences.choose_theme(self.available_themes)
        bindings = [
            one
            for kind in (FullScreenClient, Prompt, Transcript)
            for one in kind.BINDINGS
            if isinstance(one, Binding)
        ]
        keys = {one.id: one.key for one in bindings if one.id}
        bound = preferences.choose_keys(keys)
        self.set_keymap(bound)
        self.names = KeyNames(keys, bound)
        area = PromptArea(state_dir, draft_key, self._known, self.names)
        self.link = Link(
            connection, self.schedule_frame, lambda: self.size.width, self.names, area.attachments
        )
        self.link.on_leave = self.leave
        self.link.on_open = self._session_opened
        self.view = SessionScreen(self.link, area, self.names)
        self.view.warning = self._warning
        self.link.on_unsent = lambda text: self.view.prompt.put_back(text)  # noqa: PLW0108 it is made later
        area.unsent = lambda: self.link.unsent
        self.link.on_unsent_changed = area.schedule_draft
        self.failure: Exception | None = None
        """What has ended the client."""
        self.left = asyncio.Event()
        """Set when the session was left, or could not be opened."""
        self._first = first
        self._early = ""
        """The message in the prompt that is sent once there is a session."""
        self._dirty = True
        self._frame_due = False
        self._last_frame = 0.0
        self._ticks: Timer | None = None
        self._tick_s = 0.0
        self._interrupted_at = -LEAVE_S
        self._interrupt_hint = ""
        self._leaving = False
        self._has_mouse = preferences.mouse

    def get_default_screen(self) -> SessionScreen:
        """The screen of the session."""
        return self.view

    def on_mount(self) -> None:
        """Begin to connect; the prompt can be typed in meanwhile."""
        self.theme_changed_signal.subscribe(self, lambda theme: self.preferences.keep_theme(theme.name))
        if not self.is_headless:
            gc.freeze()  # modules and style sheets: a collection in mid-frame need not look at them
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):  # the keys come as keys, these from elsewhere
                loop.add_signal_handler(number, self.leave)
            signal.signal(signal.SIGHUP, partial(self._hang_up, loop))  # at once: SIGCONT follows it
        self.app_resume_signal.subscribe(self, lambda _app: self.refresh(layout=True))
        self.run_worker(self._run_link())
        self._schedule_ticks()
        if not self._has_mouse:
            self.call_after_refresh(self._set_mouse)

    # --- the link ------------------------------------------------------------------------------------------------

    async def _run_link(self) -> None:
        try:
            await self.link.run(self._first)
        except Exception as error:  # noqa: BLE001 reported as that of any command; task groups wrap theirs
            self.failure = error
        await self.view.prompt.wait_for_editor()
        self.view.area.close()
        self.left.set()
        self.exit(0)

    def _known(self) -> tuple[State, SessionInfo | None] | None:
        """The session, once there is one."""
        return (self.link.session.state, self.link.session.info) if self.link.is_open else None

    def _session_opened(self) -> None:
        link = self.link
        is_here = bool(link.client.welcome.state_dir or link.client.in_process)
        self.view.area.workspace = Path(link.session.state.workspace) if is_here else None
        for line in [*self.view.area.attachments.restore(), *self.preferences.problems]:
            link.conversation.note(line, "yellow")
        self.view.show_session()
        if self._early and self._early == self.view.prompt.message:
            self.call_later(self.view.prompt.action_submit)
        self._early = ""

    async def confirm(self, text: str) -> bool:
        """Ask whether to go on."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.push_screen(ConfirmDialog(text), lambda yes: answer.set_result(bool(yes)))
        return await answer

    def on_typed(self, event: Typed) -> None:
        """Put a character that was no answer into the prompt."""
        self.view.prompt.insert(event.text)
        self.view.prompt.focus()

    def _hang_up(self, loop: asyncio.AbstractEventLoop, *_signal: object) -> None:
        """Leave; when the terminal was closed, nothing more is written to it, as each write would fail."""
        if not is_open_terminal(sys.__stdin__):
            signal.signal(signal.SIGCONT, signal.SIG_IGN)
            nothing = os.open(os.devnull, os.O_WRONLY)
            for number in (1, 2):
                os.dup2(nothing, number)
            os.close(nothing)
        loop.call_soon_threadsafe(self.leave)

    def _fatal_error(self) -> None:
        """Keep the draft, and end with a traceback without the values of variables, which may be secrets."""
        self.view.area.close()
        lines = traceback.format_exception(self._exception) if self._exception is not None else []
        self._exit_renderables.append(Text(clean("".join(lines).rstrip())))
        self._close_messages_no_wait()

    def leave(self) -> None:
        """Leave: detach from the session, and end."""
        if self._leaving or self.view.prompt.stop_editor():
            return
        self._leaving = True
        self.view.prompt.put_back(self.link.take_back_all())
        self.view.area.close()
        if self.link.is_open:
            self.link.close()
        else:
            self.left.set()
            self.exit(0)

    # --- drawing -------------------------------------------------------------------------------------------------

    def schedule_frame(self) -> None:
        """Draw what has changed, at most thirty times a second."""
        self._dirty = True
        if not self._frame_due and self.is_running:
            self._frame_due = True
            wait = max(0.0, self._last_frame + FRAME_S - time.monotonic())
            self.set_timer(wait, self._draw_frame) if wait else self.call_later(self._draw_frame)

    def _draw_frame(self) -> None:
        self._frame_due = False
        self._last_frame = time.monotonic()
        if self._dirty and self.is_running and self.link.is_open:
            self._dirty = False
            self.view.draw()
        self._schedule_ticks()

    def _schedule_ticks(self) -> None:
        """Advance the spinners as often as the screen needs it; at rest not at all."""
        if (tick_s := self.view.tick_s) != self._tick_s and self.is_running:
            self._tick_s = tick_s
            if self._ticks is not None:
                self._ticks.stop()
            self._ticks = self.set_interval(tick_s, self._tick) if tick_s else None
            if not tick_s and self.view.is_mounted:
                self.view.draw_status()

    def _tick(self) -> None:
        if self.view.is_mounted and self.view.tick():
            self.schedule_frame()
        self._schedule_ticks()

    def _warning(self) -> str:
        return self._interrupt_hint if time.monotonic() - self._interrupted_at < LEAVE_S else ""

    # --- what is typed -------------------------------------------------------------------------------------------

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        """Send what was typed."""
        if not self.link.is_open:
            self.view.prompt.put_back(event.text)
            self._early = self.view.prompt.message
            self.notify("Not connected yet; the message is sent then, unless you change it.", markup=False)
            return
        if action := find_action(event.text, self.link.session.state):
            self.view.area.remember(event.text)
            self.call_later(self.run_action, action)
            return
        if self.link.is_deleted and not is_command(event.text):
            self.view.prompt.put_back(event.text)
            self.notify(
                self.names.fill("The session was deleted; {app.sessions} opens another one."), markup=False
            )
            return
        if self.link.questions and event.text.strip().lower() in LIKE_ANSWERS:
            self.view.prompt.put_back(event.text)
            self.notify(
                self.names.fill("{prompt.leave} goes to the question, then y or n answers it."), markup=False
            )
            return
        self.view.area.remember(event.text)
        self.view.transcript.following = True
        if event.queue and self.link.is_busy:
            self.link.queue(event.text)
        else:
            self.link.start(self._submit(event.text))

    async def _submit(self, text: str) -> None:
        try:
            await self.link.submit(text)
        except JaatoError:
            self.view.prompt.put_back(text)  # it was not taken: nothing is lost
            raise

    def action_take_back(self) -> None:
        """Take the newest queued message back into the prompt."""
        if self.link.is_open and self.link.conversation.queued:
            self.view.prompt.put_back(self.link.take_back())

    def on_question_panel_answered(self, event: QuestionPanel.Answered) -> None:
        """Send an answer."""
        self.link.start(self._answer(event.question, event.answer))

    async def _answer(self, question: Question, answer: Answer | list[str | None]) -> None:
        try:
            await self.link.answer(question, answer)
        except InvalidArguments as error:
            if not self.view.questions.refuse_edit(question, str(error)):
                raise

    # --- actions -------------------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Stop the agent; the draft stays."""
        if self.link.is_busy:
            self.link.start(self.link.session.stop())
        else:
            self.view.prompt.focus()

    def action_interrupt(self) -> None:
        """Copy a selection; else stop the turn or empty the prompt, and leave at the second press. The draft is kept."""
        field = self.focused
        if isinstance(field, Input | TextArea) and field.selected_text:
            self.copy_to_clipboard(field.selected_text)
        elif text := self.screen.get_selected_text():
            self.copy_to_clipboard(text)
            self.screen.clear_selection()
        elif self._warning():
            self.view.area.restore()
            self.leave()
        else:
            self._interrupt_hint = again = self.names.fill("{app.interrupt} again leaves")
            if self.link.is_busy:
                self._interrupt_hint = f"{again} · the turn is stopped"
                self.action_stop()
            elif self.screen is self.view and self.view.area.set_aside():
                self._interrupt_hint = f"{again} · Up brings the message back"
            self._interrupted_at = time.monotonic()
            self.set_timer(LEAVE_S, self.view.draw_status)
            self.view.draw_status()

    async def action_quit(self) -> None:
        """Leave."""
        self.leave()

    def action_focus_prompt(self) -> None:
        """Go back to the prompt."""
        self.view.prompt.focus()

    def action_answer(self) -> None:
        """Go to the question, or else to the conversation and back."""
        panel = self.view.questions
        if panel.display and not panel.has_focus_within:
            self.clear_notifications()  # one that points to the question covers the prompt for seconds
            panel.query_one("#question").focus()
        elif self.view.prompt.has_focus:
            self.view.transcript.focus()
        else:
            self.view.prompt.focus()

    def action_next_agent(self) -> None:
        """Show the conversation of the next agent."""
        if self.link.is_open:
            self.view.show_next_agent()

    def action_popup(self) -> None:
        """Show the interactive session of the agent, or hide it."""
        if self.link.is_open:
            self.view.toggle_popup()

    def action_scroll(self, pages: int) -> None:
        """Scroll the conversation by a page."""
        transcript = self.view.transcript
        lines = max(1, transcript.size.height - 2)
        transcript.scroll_by_user()
        transcript.scroll_relative(y=pages * lines, animate=False, force=True)
        self.view.draw_status()

    def action_newest(self) -> None:
        """Show the newest line, and follow."""
        self.view.transcript.action_follow()
        self.view.draw_status()

    def action_unfold(self) -> None:
        """Fold or unfold the newest call or thought."""
        self.view.transcript.marked = None
        self.view.transcript.action_fold()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What the command palette lists: screens, and what begins with `/` when it is searched for."""
        del screen
        fill = self.names.fill
        for name, (title, text) in SCREENS.items():
            yield SystemCommand(title, fill(text), partial(self.action_open, name))
        yield SystemCommand(
            "Queue", fill("send the message when the turn has ended ({prompt.queue})"), self._queue
        )
        yield SystemCommand(
            "Take back", fill("the newest queued message ({prompt.take_back})"), self.action_take_back
        )
        yield SystemCommand(
            "Interactive session",
            fill("show or hide what its program shows ({app.popup})"),
            self.action_popup,
        )
        yield SystemCommand("Theme", "choose colours, light or dark", self.action_change_theme)
        yield SystemCommand(
            "Mouse", fill("give the mouse to the terminal, or take it ({app.mouse})"), self.action_mouse
        )
        if not self.is_headless:
            text = "write the message in the program that EDITOR names ({prompt.edit})"
            yield SystemCommand("Editor", fill(text), self.view.prompt.action_edit)
            yield SystemCommand("Suspend", "go to the shell; fg comes back", self.action_suspend_process)
        yield SystemCommand("Leave", "leave; a turn in the server continues", self.leave)
        if self.link.is_open:
            for choice in list_commands(self.link.session.state):
                # the palette reads both as markup
                title, text = escape(choice.text), escape(choice.meaning)
                begin = partial(self._begin_command, choice.text)
                yield SystemCommand(title, text, begin, discover=False)

    def _queue(self) -> None:
        self.view.prompt.action_submit(queue=True)

    def _begin_command(self, text: str) -> None:
        self.view.prompt.begin(f"{text} ")
        self.view.prompt.focus()

    def action_open(self, name: str) -> None:
        """Open a screen."""
        if name == "keys":
            if isinstance(self.screen, KeysScreen):
                self.screen.dismiss(None)
            else:
                self.push_screen(KeysScreen(self.names))
        elif self.link.is_open and self.screen is self.view:
            self.push_screen(ListScreen(make_subject(name, self.view, self._load_earlier)))

    def action_mouse(self) -> None:
        """Give the mouse to the terminal, so that it selects and scrolls itself, or take it again."""
        self._has_mouse = not self._has_mouse
        self._set_mouse()
        state = "the client's" if self._has_mouse else "the terminal's"
        self.notify(self.names.fill(f"The mouse is {state} now; {{app.mouse}} changes that."), markup=False)

    def _set_mouse(self) -> None:
        name = "_enable_mouse_support" if self._has_mouse else "_disable_mouse_support"
        change = getattr(self._driver, name, None)  # a terminal has it, a test's screen has not
        if change is not None and self._driver is not None:
            change()
            self._driver.flush()

    def on_prompt_image_pasted(self, event: Prompt.ImagePasted) -> None:
        """Attach an image whose path was pasted, as a terminal does with a file that is dropped on it."""
        if self.link.is_open:
            self.link.start(self.link.submit(f"/image {event.path}"))

    def on_transcript_near_top(self) -> None:
        """Load earlier entries."""
        if self.link.is_open and self.link.conversation.first_seq is not None:
            self.link.start(self._load_earlier())

    async def _load_earlier(self, limit: int = HISTORY_PAGE) -> None:
        grown = await self.link.load_earlier(limit)
        self.view.transcript.shift(grown.get(self.view.agent_id, 0))
        self.schedule_frame()
