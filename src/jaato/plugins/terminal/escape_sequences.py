"""Parses terminal output: text, control characters and escape sequences, in pieces of any size."""

from __future__ import annotations

import codecs
import re

from jaato.plugins.terminal.screen import Screen

TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<given>[0-?]*)(?P<middle>[ -/]*)(?P<final>[@-~])"
    r"|(?P<string>\x1b[\]PX^_])"
    r"|\x1b(?P<set>[ -/]+)(?P<chosen>[0-~])"
    r"|\x1b(?P<escape>[0-OQ-WYZ\\`-~])"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f-\x9f])"
)
INCOMPLETE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)")
"""The beginning of a sequence whose end has not arrived."""
SCREENS = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")
STRING_END = re.compile(r"[\x07\x18\x1a\x1b\x9c]")
MAX_SEQUENCE = 256
MAX_STRING = 65_536
MAX_ANSWERS = 32
MAX_NUMBER = 9999
MAX_NUMBERS = 16


class EscapeSequences:
    """Applies a program's output to a screen. `replies` are the terminal's replies to queries of the program."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.replies: list[str] = []
        self.reset()

    def reset(self, missed: bytes = b"") -> None:
        """Reset the parser after a gap. Of the `missed` bytes only the choice between the two screens is applied, which
        nothing later would correct."""
        for choice in SCREENS.findall(missed)[-1:]:
            self.screen.grid.switch(choice == b"h")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._incomplete = ""
        self._string = -1

    def feed(self, data: bytes) -> None:
        """Parse the next piece. Time and memory are bounded by its size and that of the screen."""
        text = self._incomplete + self._decoder.decode(data)
        self._incomplete = ""
        self.screen.grid.tick += 1
        at = 0
        while at < len(text):
            if self._string >= 0:
                at = self._skip_string(text, at)
                continue
            token = TOKEN.match(text, at)
            if token is not None:
                at = token.end()
                self._dispatch(token)
            elif len(text) - at < MAX_SEQUENCE and INCOMPLETE.fullmatch(text, at):
                self._incomplete = text[at:]
                return
            else:
                at += 1  # an escape that begins nothing

    def _skip_string(self, text: str, at: int) -> int:
        """Pass over a title, a clipboard or other data up to its end, for as long as one may be."""
        end = STRING_END.search(text, at)
        if end is None:
            self._string += len(text) - at
            if self._string > MAX_STRING:
                self._string = -1
            return len(text)
        self._string = -1
        if end[0] == "\x1b":
            if end.end() == len(text):
                self._incomplete = "\x1b"
                return len(text)
            return end.end() + 1 if text[end.end()] == "\\" else end.start()
        return end.end()

    def _dispatch(self, token: re.Match[str]) -> None:
        match token.lastgroup:
            case "text":
                self.screen.draw(token["text"])
            case "control":
                self._apply_control(token["control"])
            case "final":
                self._apply_sequence(token["given"], token["middle"], token["final"])
            case "escape":
                self._apply_escape(token["escape"])
            case "chosen":
                if token["set"] in "()":
                    self.screen.charsets["()".index(token["set"])] = token["chosen"] == "0"
            case "string":
                self._string = 0

    def _apply_control(self, char: str) -> None:
        screen = self.screen
        match char:
            case "\n" | "\v" | "\f":
                screen.line_feed()
            case "\r":
                screen.move(screen.row, 0)
            case "\b":
                screen.move(screen.row, screen.column - 1)
            case "\t":
                screen.tab()
            case "\x0e" | "\x0f":
                screen.charset = int(char == "\x0e")
            case "\x85":
                screen.column = 0
                screen.line_feed()

    def _apply_escape(self, char: str) -> None:
        screen = self.screen
        match char:
            case "7":
                screen.save()
            case "8":
                screen.restore()
            case "D":
                screen.line_feed()
            case "E":
                screen.column = 0
                screen.line_feed()
            case "M":
                screen.reverse_feed()
            case "H":
                screen.tabs.add(screen.column)
            case "c":
                screen.reset()
            case "Z":
                self._add_reply("\x1b[?6c")

    def _apply_sequence(self, given: str, middle: str, final: str) -> None:
        if middle or given[:1] in ("<", "=", ">"):
            if (middle, final) == ("!", "p"):
                self.screen.wraps, self.screen.inserts, self.screen.from_margin = True, False, False
            return
        if given.startswith("?"):
            if final in "hl":
                for mode in parse_parameters(given[1:]):
                    self._set_private_mode(mode, final == "h")
            return
        given_numbers = parse_parameters(given)
        first = given_numbers[0]
        if not self._apply_cursor_move(final, max(first, 1), given_numbers):
            if final in "cn":
                self._reply_to_query(final, first)
            else:
                self._apply_edit(final, first, max(first, 1))

    def _apply_cursor_move(self, final: str, count: int, given: list[int]) -> bool:
        """Escape sequences that only move the cursor; False for another."""
        screen = self.screen
        match final:
            case "A":
                screen.shift(-count, 0)
            case "B" | "e":
                screen.shift(count, 0)
            case "C" | "a":
                screen.shift(0, count)
            case "D":
                screen.shift(0, -count)
            case "E":
                screen.shift(count, -screen.columns)
            case "F":
                screen.shift(-count, -screen.columns)
            case "G" | "`":
                screen.move(screen.row, count - 1)
            case "d":
                screen.place(count - 1, screen.column)
            case "H" | "f":
                screen.place(count - 1, max(given[1] if len(given) > 1 else 1, 1) - 1)
            case "I" | "Z":
                screen.tab(count if final == "I" else -count)
            case "r":
                bottom = (given[1] if len(given) > 1 else 0) or screen.height
                screen.margins(count - 1, bottom - 1)
            case "s":
                screen.save()
            case "u":
                screen.restore()
            case _:
                return False
        return True

    def _apply_edit(self, final: str, first: int, count: int) -> None:
        """Escape sequences that change what stands on the screen."""
        screen, grid = self.screen, self.screen.grid
        match final:
            case "J" if first <= 3:
                screen.erase_screen(first)
            case "K" if first <= 2:
                screen.erase_line(first)
            case "L":
                screen.edit_lines(count)
            case "M":
                screen.edit_lines(-count)
            case "@":
                grid.row(screen.row).insert(screen.column, min(count, screen.columns), screen.columns)
            case "P":
                grid.row(screen.row).delete(screen.column, min(count, screen.columns))
            case "X":
                grid.row(screen.row).erase(screen.column, min(screen.column + count, screen.columns))
            case "S":
                grid.scroll_up(screen.top, screen.bottom, count)
            case "T":
                grid.scroll_down(screen.top, screen.bottom, count)
            case "b":
                screen.repeat(count)
            case "g":
                screen.tabs.discard(screen.column) if first == 0 else screen.tabs.clear()
            case "h" | "l" if first == 4:
                screen.inserts = final == "h"

    def _reply_to_query(self, final: str, first: int) -> None:
        """Questions a program asks the terminal."""
        if (final, first) == ("c", 0):
            self._add_reply("\x1b[?6c")
        elif (final, first) == ("n", 5):
            self._add_reply("\x1b[0n")
        elif (final, first) == ("n", 6):
            self._add_reply(f"\x1b[{self.screen.row + 1};{self.screen.column + 1}R")

    def _set_private_mode(self, mode: int, on: bool) -> None:
        screen = self.screen
        match mode:
            case 1:
                screen.application_keys = on
            case 6:
                screen.from_margin = on
                screen.place(0, 0)
            case 7:
                screen.wraps = on
            case 47 | 1047:
                screen.grid.switch(on)
                screen.full = False
            case 2004:
                screen.pastes = on
            case 1048:
                screen.save() if on else screen.restore()
            case 1049:
                if on:
                    screen.save()
                screen.grid.switch(on)
                screen.full = False
                if not on:
                    screen.restore()

    def _add_reply(self, text: str) -> None:
        if len(self.replies) < MAX_ANSWERS:
            self.replies.append(text)


def parse_parameters(given: str) -> list[int]:
    """The numbers of a sequence; what is left out is 0, what is absurd is cut."""
    pieces = given.replace(":", ";").split(";", MAX_NUMBERS)[:MAX_NUMBERS]
    return [min(int(piece[:6]), MAX_NUMBER) if piece.isdecimal() else 0 for piece in pieces]
