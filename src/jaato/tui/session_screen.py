"""The screen of a session: tabs, conversation, plan, question, prompt and status, drawn from the link."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen

from jaato.protocol.events.state import AgentView
from jaato.tui.agent_tabs import AgentTabs, is_working
from jaato.tui.lines_view import LinesView
from jaato.tui.link import Link
from jaato.tui.plans import NARROW, PlanPanel, find_active_plans, lay_out_plan, summarize_plan
from jaato.tui.preferences import KeyNames
from jaato.tui.prompt.area import PromptArea
from jaato.tui.prompt.editor import Prompt
from jaato.tui.questions.panel import QuestionPanel
from jaato.tui.status_line import Status, StatusLine
from jaato.tui.transcript.lines import cut_line, make_strip
from jaato.tui.transcript.popup import PopupPanel, PopupSession
from jaato.tui.transcript.widget import Transcript

LOW_LINES, LOW_CELLS = 9, 400
"""A screen with fewer lines than the first number, and than the second one divided by its columns beside, is low."""

MODES = ("ask", "accept-edits", "plan")
"""The permission modes that a key goes through."""
HINT_TASK, HINT_BLOCK = "{app.tasks} its output, Tab back", "{transcript.toggle} unfolds, Tab back"
TICK_S, SLOW_TICK_S = 0.1, 1.0
"""How often spinners advance: while the agent works, and while the user, a lost server or a background task is waited for."""
TINY_LINES = 8
"""One with fewer lines shows a question instead of the conversation."""


class SessionScreen(Screen[None]):
    """Shows a session. `draw` draws what has changed; `tick` advances the spinners."""

    DEFAULT_CSS = """
    SessionScreen { layout: vertical; overflow: hidden; }
    SessionScreen #middle { height: 1fr; }
    SessionScreen #plan { display: none; width: 36; height: 100%; border-left: solid $primary 40%; padding: 0 1; }
    SessionScreen #planline { display: none; height: 1; padding: 0 2; }
    SessionScreen.-low Prompt { border: none; min-height: 1; max-height: 3; }
    SessionScreen.-low Prompt:focus { border: none; }
    SessionScreen.-low.-asked Prompt { max-height: 1; }
    SessionScreen.-tiny.-asked #middle { display: none; }
    """

    def __init__(self, link: Link, area: PromptArea, names: KeyNames) -> None:
        super().__init__()
        self._names = names
        self.link = link
        self.area = area
        self.agent_id = ""
        """The agent whose conversation is shown."""
        self.warning: Callable[[], str] = lambda: ""
        """What the status line says before anything else."""
        self._worked_since: float | None = None
        self._popup_choice: tuple[str, bool] = "", False
        """The interactive session for which the user chose whether it is shown."""

    def compose(self) -> ComposeResult:
        """From the top down."""
        yield AgentTabs(self._names, id="tabs")
        with Horizontal(id="middle"):
            yield Transcript(id="transcript")
            yield PlanPanel(id="plan")
        yield PopupPanel(self._names, id="popup")
        yield LinesView(id="planline")
        yield QuestionPanel(self._names, id="questions")
        yield self.area
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        """The prompt can be typed in at once."""
        self.prompt.focus()

    @property
    def prompt(self) -> Prompt:
        """The prompt."""
        return self.area.prompt

    @property
    def transcript(self) -> Transcript:
        """The conversation."""
        return self.query_one(Transcript)

    @property
    def questions(self) -> QuestionPanel:
        """The panel of the pending question."""
        return self.query_one(QuestionPanel)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size; where the keys of a question take too many lines of it, without borders."""
        self.set_class(event.size.height < LOW_LINES + LOW_CELLS // max(1, event.size.width), "-low")
        self.set_class(event.size.height < TINY_LINES, "-tiny")
        if self.link.is_open:
            self.draw()

    def on_descendant_focus(self) -> None:
        """Show the keys of what has the focus now; the panel of an answered question is hidden as it loses the focus."""
        self.set_class(self.questions.display, "-asked")
        self.draw_status()

    def action_next_mode(self) -> None:
        """Switch the session to the next permission mode."""
        if self.link.is_open:
            mode = self.link.output.mode
            following = MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else MODES[0]
            self.link.start(self.link.submit(f"/mode {following}"))

    # --- agents --------------------------------------------------------------------------------------------------

    def show_session(self) -> None:
        """Show another session, from its end."""
        self._worked_since = None
        self.agent_id = self.link.session.state.root_agent_id
        self.transcript.show_layout(self.link.conversation.root)

    def show_agent(self, agent_id: str) -> None:
        """Show the conversation of an agent, from its end."""
        if agent_id != self.agent_id:
            self.agent_id = self.link.conversation.shown_agent_id = agent_id
            self.transcript.show_layout(self.link.conversation.layout(agent_id))
            self.draw()

    def show_next_agent(self) -> None:
        """Show the conversation of the next agent."""
        ids = [agent.id for agent in self._agents()]
        at = ids.index(self.agent_id) if self.agent_id in ids else -1
        self.show_agent(ids[(at + 1) % len(ids)])

    def on_agent_tabs_selected(self, event: AgentTabs.Selected) -> None:
        """Show the agent whose tab was clicked."""
        self.show_agent(event.agent_id)

    def on_key(self, event: events.Key) -> None:
        """Put a character that is typed in the conversation into the prompt, unless a binding has its key."""
        if event.is_printable and self.transcript.has_focus and event.key not in self.active_bindings:
            event.stop()
            self.prompt.insert(event.character or "")
            self.prompt.focus()

    def on_paste(self, event: events.Paste) -> None:
        """Put what is pasted elsewhere into the prompt: in a question it is no answer."""
        if not self.prompt.has_focus:
            event.stop()
            self.prompt.post_message(events.Paste(event.text))
            self.prompt.focus()

    def _agents(self) -> list[AgentView]:
        """The agents, the root agent first."""
        state = self.link.session.state
        return sorted(state.agents.values(), key=lambda agent: agent.id != state.root_agent_id)

    # --- drawing -------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw what has changed."""
        conversation, transcript = self.link.conversation, self.transcript
        conversation.draw_frame(time.time())
        if transcript.following and self.is_current:  # a search may have loaded earlier blocks
            conversation.trim()
        transcript.refresh_blocks()
        self._draw_questions()
        names = conversation.names.name_of
        self.query_one(AgentTabs).show([] if self._is_crowded else self._agents(), self.agent_id, names)
        self._draw_plans()
        self.query_one(PopupPanel).show_session(self._find_popup())
        self.draw_status()

    def _find_popup(self) -> PopupSession | None:
        """The interactive session to show: while the agent works, unless the user has chosen otherwise."""
        popup = self.link.conversation.popups.get(self.agent_id)
        chosen_id, is_shown = self._popup_choice
        if (
            popup is None
            or self.has_class("-low")
            or not (is_shown if popup.id == chosen_id else self.link.is_busy)
        ):
            return None
        return popup

    def toggle_popup(self) -> None:
        """Show the interactive session of the agent, or hide it."""
        if (popup := self.link.conversation.popups.get(self.agent_id)) is not None:
            self._popup_choice = popup.id, self._find_popup() is None
            self.draw()

    def tick(self) -> bool:
        """Advance the spinners of all agents that work; whether the conversation has any."""
        if self.link.state != "connected":
            self.draw_status()
            self.query_one(StatusLine).tick()
            return False
        if not self.tick_s:
            return False
        self.query_one(AgentTabs).tick()
        self.query_one(StatusLine).tick()
        self.draw_status()
        return bool(self.link.conversation.calls)

    @property
    def tick_s(self) -> float:
        """Seconds between two ticks; 0 where nothing spins."""
        link = self.link
        if link.state != "connected" or not link.is_open:
            return SLOW_TICK_S if link.state == "reconnecting" else TICK_S
        if link.is_deleted:
            return 0.0
        state = link.session.state
        if link.is_busy or any(map(is_working, state.agents.values())):
            return SLOW_TICK_S if link.questions else TICK_S
        return SLOW_TICK_S if state.tasks else 0.0

    @property
    def _is_crowded(self) -> bool:
        """Whether the question on a low screen needs the lines of tabs and plans."""
        return self.has_class("-low") and self.questions.display

    def _draw_questions(self) -> None:
        self.questions.ask(self.link.questions, self.link.conversation.names.name_of)
        self.set_class(self.questions.display, "-asked")

    def _draw_plans(self) -> None:
        plans = [] if self._is_crowded else find_active_plans(self.link.session.state)
        panel, line = self.query_one("#plan", LinesView), self.query_one("#planline", LinesView)
        wide = self.size.width >= NARROW
        names = self.link.conversation.names.name_of
        panel.display, line.display = bool(plans) and wide, bool(plans) and not wide
        if plans and wide:
            panel.show_if_new(plans, lambda width, looks: lay_out_plan(plans, names, width, looks))
        elif plans:
            text = summarize_plan(plans[0][1])
            line.show_if_new(
                text, lambda width, looks: [make_strip(Text(cut_line(text, width), looks.accent))]
            )

    def draw_status(self) -> None:
        """Draw the status line, and what Enter does."""
        link = self.link
        if not link.is_open:
            self.query_one(StatusLine).wait_for(link.progress)
            return
        now = time.monotonic()
        self._worked_since = (self._worked_since or now) if link.is_busy else None
        working_s = None if self._worked_since is None else int(now - self._worked_since)
        state = link.session.state
        agent = state.agents.get(self.agent_id or state.root_agent_id)
        warning, hint = self.warning(), self._names.fill(self._hint())
        connection = "deleted" if link.is_deleted else link.state
        status = Status(state, link.output.mode, working_s, connection, warning, hint, agent)
        self.query_one(StatusLine).show(status)
        if link.is_deleted:
            self.area.set_deleted()
        else:
            self.area.set_busy(link.is_busy, bool(link.conversation.queued))

    def _hint(self) -> str:
        if self.link.progress:
            return self.link.progress
        if self.link.state == "reconnecting" and self.link.start_server is not None:
            return "a message starts the server"
        if self.link.is_deleted:
            return "{app.sessions} sessions"
        if self.transcript.has_focus:
            return HINT_TASK if self.transcript.marked_task else HINT_BLOCK
        if not self.transcript.following:
            return "{app.newest} newest"
        return "{app.stop} stops" if self.link.is_busy else "{app.keys} keys"
