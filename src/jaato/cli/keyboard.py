"""What is typed: with an editor while the agent rests, line by line while it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaato.cli.editor import PROMPT, Editor
from jaato.cli.lines import Lines
from jaato.cli.options import clean_text
from jaato.cli.screen import Look, Screen
from jaato.settings import user_dir

BROKEN = "\x03"


class Keyboard:
    """Lines from the user; those that end with a backslash go on."""

    def __init__(self, environ: Mapping[str, str], screen: Screen, commands: Sequence[str]) -> None:
        self.lines = Lines()
        self._screen = screen
        history = user_dir(environ, "XDG_STATE_HOME", ".local/state") / "chat_history"
        self._editor = Editor(environ, screen, self.lines, history, commands)
        self.interactive = self._editor.interactive
        self._commands = commands
        self._begun: list[str] = []
        self._resting = False

    async def read(self, *, working: bool, alone: bool) -> str | None:
        """The next line; None at the end of input, `BROKEN` for a Ctrl-C that the editor has taken. `alone` says that nothing
        else needs the loop meanwhile."""
        if working:
            return await self.lines.read()
        self._resting = True
        try:
            return await self._editor.read(alone=alone)
        except KeyboardInterrupt:
            return BROKEN  # a task must not raise it: it would end the loop
        finally:
            self._resting = False

    def offer(self, more: Sequence[str]) -> None:
        """What Tab completes beside the commands: those of plugins, models and sessions, as the server tells them."""
        self._editor.commands = list(dict.fromkeys([*self._commands, *more]))

    def whole(self, line: str) -> str | None:
        """The message a line ends, None when it goes on."""
        if line.endswith("\\"):
            self._begun.append(line[:-1])
            return None
        text = (clean_text("\n".join([*self._begun, line])) or "").strip()
        self._begun = []
        return text

    @property
    def _prompted(self) -> bool:
        """Whether a prompt stands there that no editor draws again."""
        return self.interactive and self._resting and self._editor.kind != "prompt_toolkit"

    def again(self) -> None:
        """Show the prompt again; what was begun is dropped."""
        self._begun = []
        if self._prompted:
            self._screen.prompt(PROMPT)

    def aside(self, text: str, look: Look, *, again: bool = True) -> None:
        """A line that comes while somebody may be typing: not behind the prompt, which stands below it again."""
        if self._prompted:
            self._screen.note("")
        self._screen.note(text, look)
        if self._prompted and again:
            self._screen.prompt(PROMPT)

    @staticmethod
    def is_command(text: str) -> bool:
        """Whether a line is a command: it begins with a slash, and its first word is no path such as /etc/hosts."""
        return text.startswith("/") and "/" not in text.split(None, 1)[0][1:]
