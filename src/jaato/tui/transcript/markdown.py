"""Lay Markdown out as strips; of a text that grows, each finished part once."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from jaato.tui.transcript.lines import add_prefix, fill, lay_out_plain, make_strip, wrap_text
from jaato.tui.transcript.looks import Looks

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_HIGHLIGHTED = 30_000
"""Characters of a code block that is highlighted; a longer one is plain."""
MIN_WIDTH = 8
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^`\n]*\n")
BULLETS = ("•", "◦", "▪")


@lru_cache(1)
def get_parser() -> MarkdownIt:
    """The parser: CommonMark with tables and strikethrough."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def lay_out_markdown(text: str, width: int, looks: Looks) -> list[Strip]:
    """The lines of clean Markdown text."""
    return Renderer(width, looks).document(get_parser().parse(text))


class Renderer:
    """Turns the tokens of a Markdown text into strips of one width."""

    def __init__(self, width: int, looks: Looks) -> None:
        self._width = max(MIN_WIDTH, width)
        self._looks = looks

    def document(self, tokens: list[Token]) -> list[Strip]:
        """The lines of top-level blocks, a blank line between two of them."""
        return self._blocks(tokens, self._width, 0, tight=False)

    def _blocks(self, tokens: list[Token], width: int, depth: int, *, tight: bool) -> list[Strip]:
        found: list[Strip] = []
        at = 0
        while at < len(tokens):
            end = find_block_end(tokens, at)
            lines = self._block(tokens[at:end], max(MIN_WIDTH, width), depth)
            if found and lines and not tight:
                found.append(Strip([], 0))
            found += lines
            at = end
        return found

    def _block(self, tokens: list[Token], width: int, depth: int) -> list[Strip]:
        first, looks = tokens[0], self._looks
        match first.type:
            case "heading_open":
                marks = "#" * int(first.tag[1:]) + " "
                text = Text(marks, looks.heading) + self._inline(tokens[1], looks.heading)
                return self._wrap(text, width)
            case "paragraph_open":
                return self._wrap(self._inline(tokens[1], looks.text), width)
            case "fence" | "code_block":
                return lay_out_code(first.content.rstrip("\n"), first.info, width, looks)
            case "blockquote_open":
                inner = self._blocks(tokens[1:-1], width - 2, depth, tight=False)
                return add_prefix(inner, "│ ", "│ ", looks.dim)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(tokens, width, depth)
            case "hr":
                return [make_strip(Text("─" * min(width, 40), looks.dim))]
            case "table_open":
                return self._table(tokens, width)
        return lay_out_plain(first.content.rstrip("\n"), width, looks.text) if first.content else []

    def _wrap(self, text: Text, width: int) -> list[Strip]:
        return [make_strip(line) for line in wrap_text(text, width)]

    def _list(self, tokens: list[Token], width: int, depth: int) -> list[Strip]:
        ordered = tokens[0].type == "ordered_list_open"
        number = int(tokens[0].attrGet("start") or 1) if ordered else 0
        tight = any(token.type == "paragraph_open" and token.hidden for token in tokens)
        found: list[Strip] = []
        at = 1
        while at < len(tokens) - 1:
            end = find_block_end(tokens, at)
            mark = f"{number}. " if ordered else f"{BULLETS[depth % len(BULLETS)]} "
            inner = self._blocks(tokens[at + 1 : end - 1], width - len(mark), depth + 1, tight=tight)
            if found and not tight:
                found.append(Strip([], 0))
            found += add_prefix(inner or [Strip([], 0)], mark, " " * len(mark), self._looks.accent)
            number, at = number + 1, end
        return found

    def _table(self, tokens: list[Token], width: int) -> list[Strip]:
        rows: list[list[Text]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                style = self._looks.strong if len(rows) == 1 else self._looks.text
                rows[-1].append(self._inline(token, style))
        return lay_out_table(rows, width, self._looks)

    def _inline(self, token: Token, style: Style) -> Text:
        """The text of an inline token; its links name their target."""
        looks, text = self._looks, Text()
        stack = [style]
        links: list[str] = []
        for child in token.children or ():
            match child.type:
                case "text":
                    text.append(child.content, stack[-1])
                case "code_inline":
                    text.append(child.content, stack[-1] + looks.code)
                case "softbreak":
                    text.append(" ", stack[-1])
                case "hardbreak":
                    text.append("\n", stack[-1])
                case "strong_open":
                    stack.append(stack[-1] + Style(bold=True))
                case "em_open":
                    stack.append(stack[-1] + Style(italic=True))
                case "s_open":
                    stack.append(stack[-1] + Style(strike=True))
                case "link_open":
                    links.append(str(child.attrGet("href") or ""))
                    stack.append(stack[-1] + looks.link)
                case "link_close":
                    stack.pop()
                    if (target := links.pop()) and not text.plain.endswith(target):
                        text.append(f" ({target})", looks.dim)
                case "image":
                    text.append(f"[image: {child.content} ({child.attrGet('src') or ''})]", looks.dim)
                case "strong_close" | "em_close" | "s_close":
                    stack.pop()
                case _:
                    text.append(child.content, stack[-1])
        return text


def find_block_end(tokens: list[Token], at: int) -> int:
    """The index after the block that begins at a token."""
    depth = 0
    while True:
        depth += tokens[at].nesting
        at += 1
        if depth <= 0 or at == len(tokens):
            return at


def lay_out_table(rows: list[list[Text]], width: int, looks: Looks) -> list[Strip]:
    """A table in columns as wide as their cells, wrapped within them where the table is too wide."""
    columns = max((len(row) for row in rows), default=0)
    if not columns:
        return []
    wanted = [
        max((row[at].cell_len for row in rows if at < len(row)), default=1) or 1 for at in range(columns)
    ]
    room = max(columns, width - 3 * (columns - 1))
    while sum(wanted) > room and max(wanted) > 1:
        widest = max(range(columns), key=wanted.__getitem__)
        others = sum(wanted) - wanted[widest]
        wanted[widest] = max(1, min(wanted[widest] - 1, max(room - others, wanted[widest] * 2 // 3)))
    found: list[Strip] = []
    for number, row in enumerate(rows):
        cells = [wrap_text(row[at] if at < len(row) else Text(), wanted[at]) for at in range(columns)]
        for line in range(max(len(cell) for cell in cells)):
            text = Text()
            for at, cell in enumerate(cells):
                part = cell[line] if line < len(cell) else Text()
                text.append_text(part)
                text.append(" " * (wanted[at] - part.cell_len))
                if at < columns - 1:
                    text.append(" │ ", looks.dim)
            found.append(make_strip(text))
        if not number:
            found.append(make_strip(Text("─┼─".join("─" * size for size in wanted), looks.dim)))
    return found


def lay_out_code(code: str, info: str, width: int, looks: Looks) -> list[Strip]:
    """The lines of a code block on a background of their own, broken at the width."""
    inner = max(MIN_WIDTH, width - 2)
    language = info.split(maxsplit=1)[0] if info.split() else ""
    lines = highlight_code(code, language, looks) if language and len(code) <= MAX_HIGHLIGHTED else None
    if lines is None:
        return fill(
            add_prefix(lay_out_plain(code, inner, looks.code), " ", " ", looks.code), width, looks.code
        )
    strips = [part for line in lines for part in chop_strip(line, inner)]
    return fill(add_prefix(strips, " ", " ", looks.code), width, looks.code)


def chop_strip(line: Strip, width: int) -> list[Strip]:
    """A line of code in pieces of a width, its blanks kept."""
    size = line.cell_length
    return [line.crop(at, at + width) for at in range(0, size, width)] if size > width else [line]


def highlight_code(code: str, language: str, looks: Looks) -> list[Strip] | None:
    """The lines of code in the colours of its language; None if the language is not known."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    styles = get_token_styles(looks)
    lines: list[list[Segment]] = [[]]
    for kind, value in lexer.get_tokens(code):
        style = styles.get(kind)
        if style is None:
            style = styles[kind] = styles[
                next(parent for parent in reversed(kind.split()) if parent in styles)
            ]
        first, *rest = value.split("\n")
        if first:
            lines[-1].append(Segment(first, style))
        lines += [[Segment(part, style)] if part else [] for part in rest]
    return [Strip(line) for line in lines]


@lru_cache(4)
def get_token_styles(looks: Looks) -> dict[Any, Style]:
    """The style of each kind of token, on the background of code."""
    from pygments.styles import get_style_by_name

    found: dict[Any, Style] = {}
    for kind, style in get_style_by_name("github-dark" if looks.dark else "default"):
        color = f"#{style['color']}" if style["color"] else None
        found[kind] = looks.code + Style(
            color=color, bold=style["bold"] or None, italic=style["italic"] or None
        )
    return found


class GrowingMarkdown:
    """The strips of a text that only grows, each behind an indent: finished blocks are laid out once, the open one again,
    and one that is long only when it has grown by a tenth."""

    def __init__(self, width: int, looks: Looks, indent: str) -> None:
        self._width = max(MIN_WIDTH, width - len(indent))
        self._looks = looks
        self._indent = indent
        self._start = 0
        """Where the open block begins in the text."""
        self._done: list[Strip] = []
        self._gap = False
        """Whether a blank line comes before the next block."""
        self._fence = ""
        """The marker of the open code block; empty outside of one."""
        self._info = ""
        self._code_start = self._lines_start = 0
        """Where the open code block begins, and its lines that are not among `_code`."""
        self._code: list[Strip] = []
        self._open: list[Strip] = []
        """The lines of a long open block, as far as it was when they were laid out."""
        self._open_end = 0
        """Where these end in the text; 0 without any."""

    def grow(self, text: str, *, final: bool = False) -> list[Strip]:
        """The strips of the text so far, which begins with the text of the call before; `final`: it is complete."""
        while self._fence and self._grow_fence(text):
            pass
        if self._fence:
            return [*self._done, *self._separator(), *self._code, *self._open_code_line(text)]
        if self._open_end and not final and len(text) - self._start < 1.1 * (self._open_end - self._start):
            rest = lay_out_plain(text[self._open_end :].strip("\n"), self._width, self._looks.text)
            return [*self._done, *self._separator(), *self._open, *self._indented(rest)]
        self._open_end = 0
        self._commit(text)
        if self._fence:
            return self.grow(text, final=final)
        tail = text[self._start :]
        lines = self._indented(lay_out_markdown(tail, self._width, self._looks)) if tail.strip() else []
        if len(tail) > MAX_OPEN_CHARS:
            self._open, self._open_end = lines, len(text)
        return [*self._done, *(self._separator() if lines else ()), *lines]

    def _separator(self) -> list[Strip]:
        return [Strip([], 0)] if self._gap and self._done else []

    def _indented(self, lines: list[Strip]) -> list[Strip]:
        return add_prefix(lines, self._indent, self._indent, self._looks.text)

    def _commit(self, text: str) -> None:
        """Lay out the blocks before the last one for good; enter a code block that is open."""
        tail = text[
            self._start : text.rfind("\n") + 1 or self._start
        ]  # a line that is not complete may change its block
        if len(text) - self._start - len(tail) > MAX_OPEN_CHARS:
            tail = text[self._start :]
        tokens = get_parser().parse(tail)
        blocks = [token for token in tokens if token.level == 0 and token.map and token.nesting >= 0]
        if not blocks:
            return
        last = blocks[-1]
        cut, gap = self._cut(tail, tokens, last)
        if cut:
            self._done += self._separator()
            self._done += self._indented(lay_out_markdown(tail[:cut], self._width, self._looks))
            self._gap = gap
            self._start += cut
        opening = FENCE.match(text, self._start)
        if opening is not None and last.type == "fence":
            self._fence, self._info = opening[1], opening[0].strip().lstrip("`~").strip()
            self._code_start = self._lines_start = opening.end()
            self._code = []

    def _cut(self, tail: str, tokens: list[Token], last: Token) -> tuple[int, bool]:
        """How much of the text can be laid out for good, and whether a blank line follows it: all before the last block; of a
        long list its first items, of a long paragraph its first lines."""
        offsets = find_line_starts(tail)
        cut = offsets[last.map[0]] if last.map else 0
        if cut:
            return cut, True
        if last.type.endswith("list_open"):
            items = [one for one in tokens if one.type == "list_item_open" and one.level == 1 and one.map]
            tight = any(token.type == "paragraph_open" and token.hidden for token in tokens)
            if len(items) > MAX_OPEN_ITEMS and (begin := items[-1].map) is not None:
                return offsets[begin[0]], not tight
        elif last.type == "paragraph_open" and len(tail) > MAX_OPEN_CHARS:
            return max(tail.rfind(" "), tail.rfind("\n"), len(tail) - 200), False
        return 0, True

    def _grow_fence(self, text: str) -> bool:
        """Take the new whole lines of the open code block; whether it was closed."""
        while (end := text.find("\n", self._lines_start)) >= 0:
            line = text[self._lines_start : end]
            if is_closing(line, self._fence):
                self._close_fence(text, end + 1)
                return True
            self._code += self._indented(lay_out_code(line, "", self._width, self._looks))
            self._lines_start = end + 1
        return False

    def _close_fence(self, text: str, after: int) -> None:
        code = text[self._code_start : self._lines_start].rstrip("\n")
        self._done += self._separator()
        if self._info and len(code) <= MAX_HIGHLIGHTED:
            self._code = self._indented(lay_out_code(code, self._info, self._width, self._looks))
        self._done += self._code
        self._gap, self._start = True, after
        self._fence, self._code = "", []

    def _open_code_line(self, text: str) -> list[Strip]:
        line = text[self._lines_start :]
        if not line or is_closing(line, self._fence):
            return []
        return self._indented(lay_out_code(line, "", self._width, self._looks))


MAX_OPEN_ITEMS = 6
"""Items of a list that stays open; those of a longer one are laid out for good."""
MAX_OPEN_CHARS = 4_000
"""Characters of a paragraph that stays open; those before are laid out for good."""


def is_closing(line: str, fence: str) -> bool:
    """Whether a line closes the code block that a marker has opened."""
    text = line.strip()
    return len(line) - len(line.lstrip(" ")) <= 3 and len(text) >= len(fence) and not text.strip(fence[0])


def find_line_starts(text: str) -> list[int]:
    """Where each line of a text begins."""
    offsets, at = [0], text.find("\n")
    while at >= 0:
        offsets.append(at + 1)
        at = text.find("\n", at + 1)
    return offsets
