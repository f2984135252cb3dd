"""The blocks of a transcript: what was sent, answered, thought, called and noted, each as lines of a width."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from jaato.cli.output.console import one_line
from jaato.cli.output.wording import call_text, failure_text, indent_argument, is_denied, sandbox_text
from jaato.protocol.events import ToolCallEnd
from jaato.protocol.messages import Text as TextPart
from jaato.settings.budgets import format_count
from jaato.tui.transcript.diffs import lay_out_diff
from jaato.tui.transcript.lines import (
    MAX_CHARS,
    MAX_LINES,
    Lines,
    add_prefix,
    clean,
    cut_line,
    lay_out_plain,
    lay_out_words,
    make_strip,
)
from jaato.tui.transcript.looks import Looks
from jaato.tui.transcript.markdown import GrowingMarkdown, lay_out_markdown

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LIVE_LINES = 5
"""The newest lines of output that a running call shows while it is folded."""
SHORT_DIFF_LINES = 24
"""Lines of a diff that is shown at once; a longer one is folded."""
SHORT_LINES, SHORT_CHARS = 20, 2_000
"""Of a message that is longer the beginning is shown."""
BLANK = Strip([], 0)


class Block(ABC):
    """A piece of the transcript. Its lines are laid out when they are needed, and kept until it changes."""

    gap = True
    """Whether a blank line comes before it."""
    can_fold = False
    """Whether it can be folded and unfolded."""
    text = ""

    def __init__(self) -> None:
        self.folded = True
        self.seq = 0
        """The durable event it comes from; 0 for none."""
        self.measured = 0
        """The width for which its height is known and not estimated."""
        self._strips: list[Strip] | None = None
        self._for: tuple[int, Looks | None] = (0, None)

    def strips(self, width: int, looks: Looks) -> list[Strip]:
        """Its lines."""
        if self._strips is None or self._for[0] != width or self._for[1] is not looks:
            lines = [
                strip if strip.cell_length <= width else strip.crop(0, width)
                for strip in self.lay_out(width, looks)
            ]
            self._strips, self._for = ([BLANK, *lines] if self.gap and lines else lines), (width, looks)
        return self._strips

    @abstractmethod
    def lay_out(self, width: int, looks: Looks) -> list[Strip]:
        """Its lines, without the blank one before."""

    def changed(self) -> None:
        """Lay it out again when it is drawn next."""
        self._strips = None

    @property
    def is_laid_out(self) -> bool:
        """Whether its lines are kept."""
        return self._strips is not None

    @property
    def words(self) -> str:
        """Its text, for a search."""
        return self.text

    def estimate(self, width: int) -> int:
        """About how many lines it has."""
        del width
        return 2


def estimate_lines(text: str, width: int) -> int:
    """About how many lines a text takes at a width."""
    return text.count("\n") + 1 + len(text) // max(20, width)


class UserBlock(Block):
    """A message to the agent, a long one folded; `note` says where it comes from or that it waits."""

    def __init__(self, text: str, note: str = "") -> None:
        super().__init__()
        self.text = clean(text[:MAX_CHARS])
        self.note = note
        self._more = len(text) - len(self._folded_text())
        self.can_fold = self._more > 0

    def _folded_text(self) -> str:
        """The beginning of the text."""
        return "\n".join(self.text.split("\n", SHORT_LINES)[:SHORT_LINES])[:SHORT_CHARS]

    def lay_out(self, width: int, looks: Looks) -> list[Strip]:
        """Its lines behind a bar."""
        style = looks.user if not self.note.startswith("waits") else looks.dim
        text = self._folded_text() if self.folded and self.can_fold else self.text
        if self.folded and self.can_fold:
            text += f"\n▸ {format_count(self._more, 'more character')}"
        lines = add_prefix(lay_out_words(text, width - 3, style), "▌ ", "▌ ", looks.accent)
        lines = [Strip([*line]).extend_cell_length(width, style) for line in lines]
        if self.note:
            lines += add_prefix(lay_out_words(self.note, width - 3, looks.dim), "▌ ", "▌ ", looks.accent)
        return lines

    def estimate(self, width: int) -> int:
        """About how many lines it has."""
        return 1 + estimate_lines(self._folded_text() if self.folded else self.text, width)


class TextBlock(Block):
    """What the agent says; `grow` takes the text as it is streamed."""

    def __init__(self, text: str = "", *, growing: bool = False) -> None:
        super().__init__()
        self.text = clean(text, tabs=False)
        self.growing = growing
        self._source = text
        self._growing: GrowingMarkdown | None = None
        self._grown_for: tuple[int, Looks | None] = (0, None)

    def grow(self, text: str) -> None:
        """Take the text so far."""
        if text == self._source:
            return
        if text.startswith(self._source):
            self.text += clean(text[len(self._source) :], tabs=False)
        else:
            self.text, self._growing = clean(text, tabs=False), None
        self._source = text
        self.changed()

    def finish(self, text: str) -> None:
        """Take the whole text; what was laid out while it was streamed is kept."""
        self.grow(text)
        self.growing, self._source = False, ""
        self.changed()

    def lay_out(self, width: int, looks: Looks) -> list[Strip]:
        """Its Markdown, indented by two columns."""
        text, more = self.text[:MAX_CHARS], len(self.text) - MAX_CHARS
        if self._grown_for[0] != width or self._grown_for[1] is not looks:
            self._growing = None
        if not self.growing and self._growing is None:
            lines = add_prefix(lay_out_markdown(text, width - 3, looks), "  ", "  ", looks.text)
        else:
            if self._growing is None:
                self._growing, self._grown_for = GrowingMarkdown(width - 1, looks, "  "), (width, looks)
            lines = self._growing.grow(text, final=not self.growing)
            if not self.growing:
                self._growing = None
        if more > 0:
            lines = [*lines, make_strip(Text(f"  … {format_count(more, 'more character')}", looks.dim))]
        return lines

    def estimate(self, width: int) -> int:
        """About how many lines it has."""
        return 1 + estimate_lines(self.text[:MAX_CHARS], width)


class ThinkingBlock(Block):
    """What the model thought, folded to one line."""

    can_fold = True

    def __init__(self, text: str, *, growing: bool = False) -> None:
        super().__init__()
        self.text = text
        self.growing = growing

    def grow(self, text: str) -> None:
        """Take the text so far."""
        if text != self.text:
            self.text = text
            self.changed()

    def finish(self, text: str) -> None:
        """Take the whole text."""
        self.text, self.growing = text, False
        self.changed()

    def lay_out(self, width: int, looks: Looks) -> list[Strip]:
        """One line, and the text when it is not folded."""
        size = format_count(len(self.text), "character")
        word = "thinking" if self.growing else "thought"
        head = make_strip(Text(f"  {'▸' if self.folded else '▾'} {word} ({size})", looks.dim))
        if self.folded:
            return [head]
        lines = lay_out_words(clean(self.text[:MAX_CHARS]).strip("\n"), width - 6, looks.dim)
        return [head, *add_prefix(lines, "    ", "    ", looks.dim)]

    def estimate(self, width: int) -> int:
        """About how many lines it has."""
        return 2 if self.folded else 2 + estimate_lines(self.text[:MAX_CHARS], width)


class CallBlock(Block):
    """A call of a tool: one line, and below it the newest output while it runs, its diff, or all of it when unfolded."""

    can_fold = True

    def __init__(self, call_id: str, tool: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.call_id = call_id
        self.tool = tool
        self.arguments = arguments
        self.status = "waits"
        """`waits`, `running`, `asks`, `done`, `failed`, `denied`, `not run`."""
        self.output = ""
        self.frame = 0
        self.started_at = 0.0
        self.elapsed_s = 0
        self.end: ToolCallEnd | None = None
        self.preview = ""
        """The diff that its question has shown."""
        self.is_last = True
        """Whether no other call follows it directly."""
        self.task_id = ""
        """The background task that it has become."""

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return self.status == "running"

    def start(self, at: float) -> None:
        """It runs from now on."""
        self.status, self.started_at = "running", at
        self.changed()

    def tick(self, now: float, output: str) -> None:
        """Advance its spinner, and take its newest output."""
        self.frame += 1
        self.elapsed_s = max(0, int(now - self.started_at))
        self.output = output
        self.changed()

    def finish(self, event: ToolCallEnd) -> None:
        """It has ended."""
        self.end, self.output = event, ""
        self.arguments = next(
            (given for given in (event.edited, event.arguments) if given is not None), self.arguments
        )
        self.status = "denied" if is_denied(event) else "done" if event.result.ok else "failed"
        self.folded = not 0 < self._diff().count("\n") <= SHORT_DIFF_LINES
        self.changed()

    @property
    def words(self) -> str:
        """Its text, for a search."""
        return f"{call_text(self.tool, self.arguments, 1_000)}\n{self.result_text}"

    def lay_out(self, width: int, looks: Looks) -> list[Strip]:
        """Its line, and what is shown below it."""
        lines = [self._head(width, looks)]
        inner = width - 9
        if self.status in ("failed", "denied") and self.folded:
            lines += self._below(self._reason(inner, looks), looks)
        elif not self.folded:
            lines += self._below(self._details(inner, looks), looks)
        elif self.is_running and self.output:
            newest = "\n".join(clean(self.output[-4_000:]).rstrip("\n").split("\n")[-LIVE_LINES:])
            lines += self._below([*lay_out_plain(newest, inner, looks.dim)][-LIVE_LINES:], looks)
        return lines

    def _head(self, width: int, looks: Looks) -> Strip:
        marks = {
            "waits": ("·", looks.dim),
            "running": (SPINNER[self.frame % len(SPINNER)], looks.accent),
            "asks": ("?", looks.warn),
            "done": ("✓", looks.good),
            "failed": ("✗", looks.bad),
            "denied": ("✗", looks.warn),
            "not run": ("-", looks.dim),
            "interrupted": ("!", looks.warn),
        }
        has_failed = self.status == "failed" or bool(self._exit_code())
        mark, style = marks["failed" if has_failed else self.status]
        facts = self._facts()
        has_path = "path" in self.arguments and self._diff() != ""  # the diff shows the other arguments
        arguments = {"path": self.arguments["path"]} if has_path else self.arguments
        text = Text(f"  {'└─' if self.is_last else '├─'}", looks.dim)
        text.append(" ▸ " if self.folded else " ▾ ", looks.dim)
        text.append(f"{mark} ", style)
        room = max(10, width - text.cell_len - len(facts) - 3)
        line = cut_line(call_text(self.tool, arguments, room), room)
        name, _, rest = line.partition(" ")
        text.append(name, looks.strong)
        text.append(f" {rest}" if rest else "", looks.text)
        text.append(" " * max(2, width - text.cell_len - len(facts) - 1))
        text.append(facts, looks.bad if has_failed else looks.dim)
        return make_strip(text)

    def _facts(self) -> str:
        """Duration and exit code, or what it waits for."""
        if self.status == "running":
            elapsed = f"{self.elapsed_s} s" if self.elapsed_s else ""
            return f"in background {elapsed}".rstrip() if self.task_id else elapsed
        if self.end is None:
            return {"asks": "needs permission", "not run": "not run"}.get(self.status, "")
        if self.status == "denied":
            return "denied"
        code, duration = self._exit_code(), format_duration(self.end.duration_s)
        return duration if code is None else f"exit {code} · {duration}"

    def _exit_code(self) -> int | None:
        """The exit code of a command that was run."""
        return self.end.result.exit_code if self.end is not None else None

    def _reason(self, width: int, looks: Looks) -> list[Strip]:
        """Why it failed or was denied."""
        assert self.end is not None
        if self.end.permission is not None and self.status == "denied":
            return lay_out_words(one_line(self.end.permission.reason, 1_000), width, looks.warn)
        text = failure_text(self.end, 1_000).removeprefix(f"x {self.tool}: ")
        return lay_out_words(text, width, looks.bad)

    def _details(self, width: int, looks: Looks) -> list[Strip]:
        """Arguments, sandbox, and the output, the result or the diff."""
        diff = self._diff()
        lines = Lines()
        if not diff:
            for name, value in self.arguments.items():
                lines.add_plain(clean(indent_argument(name, value)[2:]), width, looks.dim)
        if self.end is not None and (sandbox := sandbox_text(self.end)):
            lines.add_plain(sandbox, width, looks.dim)
        if self.status in ("failed", "denied"):
            lines.extend(self._reason(width, looks))
        if diff:
            lines.join(lay_out_diff(diff, width, looks))
        elif text := clean(self.result_text[:MAX_CHARS]).strip("\n"):
            lines.add_plain(text, width, looks.text)
        if len(lines) <= MAX_LINES:
            return list(lines)
        more = make_strip(Text(f"… {format_count(len(lines) - MAX_LINES, 'more line')}", looks.dim))
        last = [lines[at] for at in range(len(lines) - 20, len(lines))]
        return [*islice(lines, MAX_LINES - 20), more, *last]

    def _below(self, lines: list[Strip], looks: Looks) -> list[Strip]:
        bar = "       │ " if self.is_last else "  │    │ "
        return add_prefix(lines, bar, bar, looks.dim)

    def _diff(self) -> str:
        """The diff of an edit that was made, or was asked for."""
        if self.status == "denied":
            return ""
        made = "\n".join(find_diffs(self.end.result.structured)) if self.end is not None else ""
        return clean(made or (self.preview if self.end is None else ""))

    @property
    def result_text(self) -> str:
        """The output or the screen that a call has shown, else its result."""
        if self.end is None:
            return self.output
        result = self.end.result
        found = result.structured if isinstance(result.structured, dict) else {}
        for key in ("output", "screen"):
            if isinstance(found.get(key), str):
                return str(found[key])
        parts = [
            part.text if isinstance(part, TextPart) else f"[{part.name or part.mime_type}]"
            for part in result.content
        ]
        return "\n".join(parts)


def find_diffs(result: Any, depth: int = 3) -> Iterator[str]:
    """The unified diffs in the result of a tool that edits files, each under the path of its file."""
    if isinstance(result, dict) and isinstance(result.get("diff"), str):
        diff = result["diff"]
        if diff.strip():
            head = "" if diff.startswith(("---", "diff ")) else f"+++ {result.get('path', '')}\n"
            yield f"{head}{diff.rstrip()}"
    elif depth and isinstance(result, dict | list):
        for value in result.values() if isinstance(result, dict) else result:
            yield from find_diffs(value, depth - 1)


def format_duration(seconds: float) -> str:
    """A duration, for people."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


class NoteBlock(Block):
    """Lines of the program or the server, each with the colour that the line client gives it."""

    def __init__(self, lines: Sequence[tuple[str, str]], *, gap: bool = True) -> None:
        super().__init__()
        self.gap = gap
        self._lines = [(clean(text)[:MAX_CHARS], look) for text, look in lines]

    def add(self, text: str, look: str, *, keep: int = 0) -> None:
        """Append a line; of all lines the last ones are kept, if there is a number to `keep`."""
        self._lines.append((clean(text)[:MAX_CHARS], look))
        if keep:
            del self._lines[:-keep]
        self.changed()

    @property
    def words(self) -> str:
        """Its text, for a search."""
        return "\n".join(text for text, _ in self._lines)

    def lay_out(self, width: int, looks: Looks) -> list[Strip]:
        """Its lines, indented by two columns; columns of a listing stay where they are."""
        found: list[Strip] = []
        for text, look in self._lines:
            found += lay_out_line(text, width - 3, looks.named(look))
        return add_prefix(found, "  ", "  ", looks.text)

    def estimate(self, width: int) -> int:
        """About how many lines it has."""
        return 1 + sum(estimate_lines(text, width) for text, _ in self._lines)


def lay_out_line(text: str, width: int, style: Style) -> list[Strip]:
    """Lines that fit as they are; others broken between words."""
    if "\n" not in text and len(text) <= width and text.isascii():
        return [Strip([Segment(text, style)], len(text))] if text else [BLANK]
    return lay_out_words(text, width, style)
