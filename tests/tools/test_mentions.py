"""What a text names with an at sign, and its parts."""

from __future__ import annotations

import pytest

from jaato.tools.invisible_text import escape_invisible, one_line, quote
from jaato.tools.markdown import Block, mentions, parts_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("read @notes.txt, @src/a.py and (@b.md).", ["notes.txt", "src/a.py", "b.md"]),
        ('`@x/y` or @"a b.md"!', ["x/y", "a b.md"]),
        ("Explain @Makefile, please", ["Makefile"]),
        ("@Makefile explain", ["Makefile"]),
        ("Compare:\n@Makefile\n@Dockerfile\n\nThanks", ["Makefile", "Dockerfile"]),
        ("@a.md @a.md\n@a.md", ["a.md"]),
        ("@property\ndef x(self): ...", []),
        ("@Override\n@Test\npublic void x()", []),
        ("class A:\n    @cached\n    def x(self): ...", []),
        ("@lru_cache(maxsize=3)\ndef f(): ...", []),
        (" * @param x the value", []),
        ("void f(@Nullable String x)", []),
        ("me@notes.txt and c = a @ b", []),
        ("```python\n@notes.txt\n```\n~~~\n@b.txt\n~~~\n@c.txt", ["c.txt"]),
        ("```\n@never.closed", ["never.closed"]),
        ("@property\ndef x(self): ...\n\nWhat is @property?", ["property"]),
        ("@./property\ndef", ["./property"]),
        ("", []),
    ],
)
def test_names_are_told_from_decorators_and_addresses(text: str, names: list[str]) -> None:
    """Files are named in sentences and on lines of their own; code and addresses name none."""
    assert mentions(text, 20) == names


def test_so_many_names_are_read() -> None:
    """The first ones, in their order."""
    assert mentions(" ".join(f"@{number}.md" for number in range(10_000)), 3) == ["0.md", "1.md", "2.md"]


def test_blocks_and_prose() -> None:
    """A block ends with marks like its own and no words; one that never ends is prose."""
    text = "a\n````MD x=1\n```\nin\n```\n````\n   ~~~\r\nb\r\n~~~~\n    ```\nc\n```d`\n```\nopen"
    found = parts_of(text)
    assert found.blocks == [Block("md", "```\nin\n```\n"), Block("", "b\r\n")]
    assert found.prose == ["a", "    ```", "c", "```d`", "```", "open"]


def test_what_cannot_be_seen_is_spelt_out() -> None:
    """Controls, marks of direction and tags are; line ends, tabs, accents, joiners and emoji are not."""
    assert escape_invisible("a\tb\r\nc é ❤\ufe0f 👩\u200d👩") == "a\tb\r\nc é ❤\ufe0f 👩\u200d👩"
    hidden = "\x1b[8m\x00\x7f\x85\u200b\u202e\u2066\ufeff\U000e0041\U000e0101\ud800\rx"
    assert escape_invisible(hidden).isascii()
    assert escape_invisible("\u200d\ufe0f\u200c") == "\\u200d\\ufe0f\\u200c"
    assert one_line("a\n\n b\x1b", 10) == "a b\\x1b"
    assert one_line("x" * 99, 10) == "x" * 9 + "…"
    assert quote('a"\u202e') == '"a\\"\\\\u202e"'
