"""The forms a value takes on its way through programs, and many values at once."""

from __future__ import annotations

import base64
import html
import json
import random
import shlex
import string
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.runtime.secrets import secret_variables
from jaato.tools.redaction.redactor import FEW, PLACEHOLDER, Redactor, ValueIndex, placeholder_in

PASSWORD = "p@ss/W0rd'+q=Zz&9!<x>\"y"
CORE = "W0rd"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS = {
    "PHP's JSON": json.dumps(PASSWORD).replace("/", "\\/"),
    "Go's JSON": json.dumps(PASSWORD).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
    "a path": quote(PASSWORD),
    "a browser's address": quote(PASSWORD, safe="!'()*"),
    "small percent signs": quote(PASSWORD, safe="")
    .replace("%2F", "%2f")
    .replace("%3D", "%3d")
    .replace("%2B", "%2b")
    .replace("%3C", "%3c")
    .replace("%3E", "%3e"),
    "a form": quote_plus(PASSWORD),
    "a page": html.escape(PASSWORD),
    "a page's text": html.escape(PASSWORD, quote=False),
    "a shell": shlex.quote(PASSWORD),
    "SQL": PASSWORD.replace("'", "''"),
}


@pytest.mark.parametrize("form", list(FORMS))
def test_a_value_is_known_as_programs_write_it(form: str) -> None:
    """Escaped for JSON, addresses, pages, shells and SQL it is the same secret."""
    masked = Redactor({"DB_PASSWORD": PASSWORD}).mask(f"<{FORMS[form]}>")
    assert CORE not in masked
    assert "[masked:DB_PASSWORD:" in masked


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "admin:", "x:"])
@pytest.mark.parametrize("after", ["", "z", "zz"])
def test_a_value_is_known_anywhere_in_base64(before: str, after: str) -> None:
    """What basic authentication sends holds the password after the user's name, at any of three places."""
    text = encoded(f"{before}{PASSWORD}{after}")
    inner = encoded(f"{'abc'[: len(before) % 3]}{PASSWORD}")[6:24]
    for shown in (text, text.replace("+", "-").replace("/", "_")):
        masked = Redactor({"DB_PASSWORD": PASSWORD}).mask(f"auth = {shown}")
        assert inner not in masked
        assert "[masked:DB_PASSWORD:" in masked


def test_the_lines_of_a_key_written_on_one_line_are_known() -> None:
    r"""A variable that holds a key with `\n` in place of line ends masks each of its lines."""
    lines = ["".join(random.Random(n).choices(string.ascii_letters, k=64)) for n in range(6)]
    value = "-----BEGIN PRIVATE KEY-----\\n" + "\\n".join(lines) + "\\n-----END PRIVATE KEY-----"
    masked = Redactor({"APP_PRIVATE_KEY": value}).mask(f"   4\t{lines[3]}\n")
    assert lines[3] not in masked


MANY = {
    f"K{n}_TOKEN": "".join(random.Random(n).choices(string.ascii_letters + string.digits, k=9 + n % 90))
    for n in range(5_000)
}


def test_five_thousand_values_are_masked_whole_and_in_pieces() -> None:
    """Each of very many values is found in a text, in a stream, and where the middle of an output is left out."""
    secrets = Redactor(MANY)
    chosen = random.Random(7).sample(list(MANY.values()), 60)
    text = "".join(f"{'word ' * (n % 5)}{value}\n" for n, value in enumerate(chosen))
    masked = secrets.mask(text)
    assert not any(value in masked for value in chosen)
    assert len(PLACEHOLDER.findall(masked)) == 60
    stream = secrets.stream()
    shown = "".join(stream.feed(text[at : at + 7]) for at in range(0, len(text), 7)) + stream.end()
    assert not any(value[1:] in shown for value in chosen)
    long = next(value for value in chosen if 40 < len(value) < 60)
    head, tail = secrets.trim_ends(f"so {long[:20]}".encode(), f"{long[20:]} and on\n".encode())
    assert head == b"so "
    assert tail == b" and on\n"
    assert not secrets.may_hold_secret("nothing of the kind " * 50)


def test_many_values_that_begin_alike_are_told_apart() -> None:
    """Keys of one service share their first characters."""
    keys = {f"K{n}": f"sk-proj-{n:06d}abcdefgh" for n in range(400)}
    secrets = Redactor(keys, shapes=False)
    masked = secrets.mask("sk-proj-000007abcdefgh sk-proj-999999abcdefgh")
    assert masked.startswith("[masked:K7:")
    assert masked.endswith(" sk-proj-999999abcdefgh")


WORDS = st.text(alphabet="abAB01/+", min_size=8, max_size=24)


@given(
    st.lists(WORDS, min_size=1, max_size=12),
    st.lists(st.integers(0, 11), max_size=6),
    st.text("abAB01/+ ", max_size=40),
)
def test_many_are_found_as_few_are(values: list[str], places: list[int], between: str) -> None:
    """The way for many values finds exactly what looking for each of them finds."""
    few, many = ValueIndex(), ValueIndex()
    few.add((value, "A") for value in values)
    many.add((value, "A") for value in values)
    many.add((f"filler{number:08d}", "F") for number in range(FEW))
    assert few.few is not None
    assert many.few is None
    text = between + between.join(values[place % len(values)] for place in places)
    assert sorted(few.present(text)) == sorted(many.present(text))


@pytest.mark.parametrize("word", ["postgres", "password", "localhost"])
def test_a_password_that_is_a_plain_word_is_no_secret(word: str) -> None:
    """`postgres://postgres:postgres@localhost/db` does not take the word postgres out of every file."""
    found = secret_variables({"DATABASE_URL": f"postgres://postgres:{word}@localhost/db"}, [])
    assert found == {}
    assert secret_variables({"DATABASE_URL": "postgres://app:Xk29fmQz81@db/x"}, []) != {}


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"body": {"[masked:TOKEN:0a1b2c]": 1}}, "/body/[masked:TOKEN:0a1b2c]"),
        ({"url": "http://h/?k=%5Bmasked:TOKEN:0a1b2c%5D"}, "/url"),
        ({"url": "http://h/?k=%5bmasked%3ATOKEN%3A0a1b2c%5d"}, "/url"),
        ({"text": "TOKEN=[masked:TOKEN:854…]"}, "/text"),
        ({"text": "TOKEN=[masked:TOKEN]"}, "/text"),
        ({"text": "TOKEN=[masked:TOKEN:854]"}, "/text"),
        ({"text": "TOKEN=[masked:TOKEN:0A1B2C]"}, "/text"),
        ({"text": "TOKEN=\\u005bmasked:TOKEN:0a1b2c\\u005d"}, "/text"),
    ],
)
def test_a_placeholder_is_seen_however_a_model_writes_it(arguments: dict[str, object], place: str) -> None:
    """In keys, percent-encoded, shortened or with other letters it would destroy a secret all the same."""
    assert placeholder_in(arguments) == place


@pytest.mark.parametrize(
    "text",
    ["[masked:NAME:xxxxxx]", "[masked:…]", "[masked]", "arr[masked:3]x", "a[masked:n:2]", "m[masked: x]"],
)
def test_what_only_looks_like_a_placeholder_may_be_written(text: str) -> None:
    """The documentation of placeholders, and slices of a variable of that name."""
    assert placeholder_in({"text": text}) is None
