"""Where the blocks of a transcript lie: their heights, of those not drawn yet as an estimate."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from rich.style import Style
from textual.strip import Strip

from jaato.tui.transcript.blocks import Block, CallBlock
from jaato.tui.transcript.looks import Looks

MAX_BLOCKS = 2_000
"""Blocks that are kept while the newest are shown; the server has the earlier ones."""
MAX_PASSES = 4
"""How often a part is laid out until nothing above it moves."""
MAX_LAID_OUT = 300
"""Blocks whose lines are kept."""
NO_LETTERS = re.compile(r"\W+")


def count_letters(strip: Strip) -> int:
    """The letters and digits of a line: its marks and margins depend on the width."""
    return len(NO_LETTERS.sub("", strip.text))


class Layout:
    """The blocks of one agent from the top down. Heights are lines of the width it was given last."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.width = 80
        self._heights: list[int] = []
        self._starts: list[int] = [0]
        self._valid = True
        self._laid_out: dict[int, Block] = {}
        """Blocks whose lines are kept, the one used longest ago first."""

    @property
    def height(self) -> int:
        """All lines."""
        return self.starts[-1]

    @property
    def starts(self) -> list[int]:
        """The first line of each block, and the end."""
        if not self._valid:
            self._starts = [0, *accumulate(self._heights)]
            self._valid = True
        return self._starts

    def append(self, block: Block) -> None:
        """Add a block at the end."""
        self.insert(len(self.blocks), block)

    def insert(self, at: int, block: Block) -> None:
        """Add a block before another one."""
        self.blocks.insert(at, block)
        self._heights.insert(at, block.estimate(self.width))
        self._valid = False
        self._join(at)

    def remove(self, block: Block) -> None:
        """Remove a block, if it is there."""
        if block in self.blocks:
            at = self.blocks.index(block)
            del self.blocks[at], self._heights[at]
            self._laid_out.pop(id(block), None)
            self._valid = False
            self._join(at)

    def trim(self) -> int:
        """Remove the first blocks beyond `MAX_BLOCKS`; returns how many lines they had."""
        surplus = len(self.blocks) - MAX_BLOCKS
        if surplus <= 0:
            return 0
        lines = self.starts[surplus]
        for block in self.blocks[:surplus]:
            self._laid_out.pop(id(block), None)
        del self.blocks[:surplus], self._heights[:surplus]
        self._valid = False
        return lines

    def _join(self, at: int) -> None:
        """Draw calls that follow each other as branches of one tree."""
        for number in (at - 1, at):
            if 0 <= number < len(self.blocks) and isinstance(block := self.blocks[number], CallBlock):
                after = self.blocks[number + 1] if number + 1 < len(self.blocks) else None
                before = self.blocks[number - 1] if number else None
                last, gap = not isinstance(after, CallBlock), not isinstance(before, CallBlock)
                if (block.is_last, block.gap) != (last, gap):
                    block.is_last, block.gap = last, gap
                    block.changed()

    def set_width(self, width: int) -> None:
        """Estimate all heights for another width."""
        if width != self.width:
            self.width = width
            self._heights = [block.estimate(width) for block in self.blocks]
            self._valid = False

    def count_before(self, block: Block, number: int, looks: Looks) -> int:
        """The letters and digits of a block before one of its lines; -1 before its first one."""
        return sum(map(count_letters, block.strips(self.width, looks)[:number])) if number else -1

    def find_text(self, block: Block, letters: int, looks: Looks) -> int:
        """The line of a block with the letter or digit after so many."""
        at = self.blocks.index(block)
        self._lay_out(at, looks)
        counts = accumulate(map(count_letters, block.strips(self.width, looks)))
        number = (
            next((number for number, count in enumerate(counts) if count > letters), 0) if letters >= 0 else 0
        )
        return self.starts[at] + number

    def index_at(self, y: int) -> int:
        """The index of the block with a line."""
        return max(0, min(bisect_right(self.starts, y) - 1, len(self.blocks) - 1))

    def settle(self, top: int, lines: int, looks: Looks, *, from_end: bool) -> int:
        """Lay out the blocks of a part of the lines, and correct their heights; returns by how many lines what stands above
        the part has grown. `from_end`: the part is the last lines, whatever they are."""
        if from_end:
            at = len(self.blocks) - 1
            while at >= 0 and lines > 0:
                self._lay_out(at, looks)
                lines -= self._heights[at]
                at -= 1
            return 0
        shift = 0
        for _ in range(MAX_PASSES):
            moved = self._settle_once(top + shift, lines, looks)
            shift += moved
            if not moved:
                break
        return shift

    def _settle_once(self, top: int, lines: int, looks: Looks) -> int:
        """Lay out the blocks of a part; returns by how many lines the first one of known height has moved."""
        if not self.blocks:
            return 0
        first = self.index_at(top)
        known = first
        while known < len(self.blocks) - 1 and self.starts[known] < top + lines:
            if self.blocks[known].measured == self.width:
                break
            known += 1
        if self.blocks[known].measured != self.width:
            known = first
        before, at = self.starts[known], first
        while at < len(self.blocks) and self.starts[at] < top + lines + self.starts[known] - before:
            self._lay_out(at, looks)
            at += 1
        return self.starts[known] - before

    def _lay_out(self, at: int, looks: Looks) -> int:
        block = self.blocks[at]
        height = len(block.strips(self.width, looks))
        block.measured = self.width
        change = height - self._heights[at]
        if change:
            self._heights[at] = height
            self._valid = False
        self._laid_out.pop(id(block), None)
        self._laid_out[id(block)] = block
        while len(self._laid_out) > MAX_LAID_OUT:
            self._laid_out.pop(next(iter(self._laid_out))).changed()
        return change

    def line(self, y: int, looks: Looks) -> tuple[Strip, Block | None, int]:
        """A line, its block, and its number in the block."""
        if not 0 <= y < self.height:
            return Strip.blank(self.width, Style()), None, 0
        at = self.index_at(y)
        block = self.blocks[at]
        number = y - self.starts[at]
        strips = block.strips(self.width, looks)
        return (strips[number] if number < len(strips) else Strip([], 0)), block, number
