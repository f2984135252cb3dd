"""The files attached to the message in the prompt, which stay with its text: put aside and recalled, and in its draft."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jaato.cli.arguments.values import Attachment, read_attachment
from jaato.cli.output.console import one_line
from jaato.errors import ConfigError

MAX_ASIDE = 5
"""Messages in the history whose attachments are in memory."""


class Attachments:
    """What is attached to the message in the prompt, and what was to messages that were put aside."""

    def __init__(self) -> None:
        self.files: list[Attachment] = []
        self.stored: list[str] = []
        """The paths in the draft of an earlier client, until `restore` reads them."""
        self._aside: dict[str, list[Attachment]] = {}
        self._recalled: list[Attachment] = []
        """Those of the message put aside that is shown."""

    def take(self) -> list[Attachment]:
        """What is attached, and no longer is: it goes with a message."""
        taken, self.files = self.files, []
        if self._recalled:
            self._aside = {text: files for text, files in self._aside.items() if files is not self._recalled}
            self._recalled = []
        return taken

    def put_back(self, files: Sequence[Attachment]) -> None:
        """Attach what was taken for a message that is not sent."""
        self.files = [*files, *self.files]

    def set_aside(self, text: str) -> None:
        """Keep what is attached for when this message is recalled."""
        if files := self.take():
            self._aside = dict([*self._aside.items(), (text, files)][-MAX_ASIDE:])

    def recall(self, text: str) -> list[Attachment]:
        """Attach what was put aside with the message that is shown now, in place of that of the one shown before."""
        self.files = self.list_typed()
        self._recalled = self._aside.get(text, [])
        self.files += self._recalled
        return self._recalled

    def list_typed(self) -> list[Attachment]:
        """What is attached without what an earlier message has brought that is shown."""
        return [one for one in self.files if one not in self._recalled]

    def restore(self) -> list[str]:
        """Attach the files of an earlier client's draft; what has come of each, in a line."""
        lines = []
        for path in map(Path, self.stored):
            name = one_line(path.name, 80)
            try:
                self.files.append(Attachment(path, read_attachment(path)))
                lines.append(f"{name} is attached to the draft.")
            except ConfigError as error:
                lines.append(f"{name} is no longer attached to the draft: {error}")
        self.stored = []
        return lines
