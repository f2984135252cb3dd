"""Known values and known shapes in texts, in data and in texts that come in pieces."""

from __future__ import annotations

import base64
import json
import subprocess
import uuid
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.secrets.canaries import ADDRESS, CORE, LETTERS, PASSWORD, SHAPES, VALUE

from jaato.runtime.secrets import secret_variables
from jaato.tools.redaction.redactor import PLACEHOLDER, Redactor, placeholder_in

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", SHAPES)
def test_a_known_shape_is_masked_wherever_it_stands(kind: str) -> None:
    """Each known shape becomes one placeholder: alone, in a sentence, quoted, in JSON, in colour, in an address."""
    secret, secrets = SHAPES[kind], Redactor()
    for before, after in (
        ("", ""),
        ("the key is ", ", keep it"),
        ('KEY="', '"'),
        ("a=b&key=", "&x"),
        ("\x1b[31m", "\x1b[0m"),
    ):
        masked = secrets.mask(f"{before}{secret}{after}")
        assert secret not in masked
        assert len(PLACEHOLDER.findall(masked)) == 1
        assert masked.startswith(before.removesuffix("x"))
        assert masked.endswith(after)
    inside = secrets.mask(json.dumps({"out": f"first\n{secret}\nlast"}))
    assert CORE not in inside
    assert json.loads(inside)["out"].endswith("last")


def test_a_password_in_an_address_is_masked_alone() -> None:
    """Of `scheme://user:password@host` only the password is hidden; addresses without one stay."""
    secrets = Redactor()
    masked = secrets.mask(f"connect to {ADDRESS} now")
    assert PASSWORD not in masked
    assert masked.startswith("connect to postgres://app:[masked:password:")
    assert masked.endswith("@db.example/prod now")
    for plain in (
        "https://example.org:8080/a@b",
        "https://user@host/x",
        "git://user:${PASSWORD}@host",
        "http://u:p@h",
    ):
        assert secrets.mask(plain) == plain


def test_a_value_is_masked_in_the_forms_it_takes() -> None:
    """A known value is hidden as it is, in JSON, in JSON in JSON, percent-encoded and in base64."""
    value = 'p"q\\r/ß=' + VALUE
    secrets = Redactor({"DEPLOY_TOKEN": value})
    once = json.dumps(value)
    for form in (
        value,
        once,
        json.dumps(once),
        quote(value, safe=""),
        base64.b64encode(value.encode()).decode(),
    ):
        masked = secrets.mask(f"<{form}>")
        assert "[masked:DEPLOY_TOKEN:" in masked
        assert VALUE not in masked
    lines = Redactor({"KEY": "head\n" + LETTERS + "\n" + LETTERS[::-1] + "\n"})
    assert LETTERS not in lines.mask(f"   12\t{LETTERS}\n   13\t{LETTERS[::-1]}")


def test_placeholders_tell_values_apart_and_betray_nothing() -> None:
    """The same value has one placeholder in a process, another value another one, another process another key."""
    one, other = Redactor({"A": VALUE, "B": VALUE + "2"}), Redactor({"A": VALUE})
    assert one.mask(VALUE) == one.mask(f"{VALUE} ").strip()
    assert one.mask(VALUE)[-7:] != one.mask(VALUE + "2")[-7:]
    assert one.mask(VALUE) != other.mask(VALUE)
    assert Redactor({"we ird/näme": VALUE}).mask(VALUE).startswith("[masked:we_ird_n_me:")
    assert one.mask(one.mask(VALUE)) == one.mask(VALUE)


def test_data_is_made_anew_only_where_it_changes() -> None:
    """Keys and values at any depth are masked; what holds no secret is the same object."""
    secrets = Redactor({"TOKEN": VALUE})
    clean = {"a": [1, None, {"b": "long enough to be looked at"}]}
    given_data = {"clean": clean, VALUE: [f"x {VALUE}", 5]}
    masked = secrets.mask_data(given_data)
    assert VALUE not in json.dumps(masked)
    assert masked["clean"] is clean
    assert secrets.mask_data(clean) is clean
    assert VALUE in given_data


def test_what_is_added_counts_at_once() -> None:
    """A value learned later is masked from then on, also in a text seen before; without masking nothing is."""
    secrets = Redactor()
    assert secrets.mask(f"the {VALUE}") == f"the {VALUE}"
    secrets.add("MCP_TOKEN", VALUE)
    assert VALUE not in secrets.mask(f"the {VALUE}")
    off = Redactor.none()
    off.add("MCP_TOKEN", VALUE)
    assert off.mask(VALUE + SHAPES["github"]) == VALUE + SHAPES["github"]
    assert off.stream().feed(VALUE) == VALUE


TEXT = "".join(
    [
        f"begin {VALUE} mid ",
        *(f"{secret} and\n" for secret in SHAPES.values()),
        f"{ADDRESS} {VALUE}{VALUE} gh sk- https:",
    ]
)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 120), min_size=1, max_size=60))
def test_pieces_are_masked_as_the_whole(sizes: list[int]) -> None:
    """However a text is cut into pieces, a stream shows of each secret its first character at most."""
    secrets = Redactor({"TOKEN": VALUE, "LONG": LETTERS * 4})
    text = TEXT + LETTERS * 4 + " end"
    stream, shown, at, turn = secrets.stream(), "", 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        shown += stream.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    shown += stream.end()
    for secret in (VALUE, PASSWORD, LETTERS * 4, *SHAPES.values()):
        assert secret[1:] not in shown
    assert len(PLACEHOLDER.findall(shown)) == len(PLACEHOLDER.findall(secrets.mask(text)))
    assert shown.endswith(PLACEHOLDER.findall(shown)[-1] + " end")
    assert " gh sk- https:" in shown


def test_ordinary_pieces_are_not_held_back() -> None:
    """What cannot begin a secret is shown at once; a prompt without a newline is seen."""
    stream = Redactor({"TOKEN": VALUE}).stream()
    assert stream.feed("Password: ") == "Password: "
    assert stream.feed("Proceed? [y/N] ") == "Proceed? [y/N] "
    assert stream.feed("Compiling… 中文") == "Compiling… 中文"
    assert stream.end() == ""


def test_which_variables_are_secret() -> None:
    """Names that say so with values that look so; paths, switches, plain words, authors and addresses are none."""
    secret = {
        "GITHUB_TOKEN": VALUE, "OPENAI_API_KEY": VALUE, "DB_PASSWORD": "s3cret-word", "AWS_SECRET_ACCESS_KEY": VALUE,
        "PGPASSWORD": "Tr0ub4dor", "SIGNING_KEY": VALUE, "npm_config_//registry/:_authToken": VALUE, "GH_PAT": VALUE,
        "PASSPHRASE": "correcthorsebatterystaple",
    }  # fmt: skip
    plain = {
        "SSH_AUTH_SOCK": "/run/agent.sock", "GIT_AUTHOR_NAME": "Jane Q. Doe", "TOKENIZERS_PARALLELISM": "false-or-1",
        "MAX_TOKENS": "12345678", "PASSWORD": "Password", "GPG_KEY": "A035C8C19219BA821ECEA86B64E628F8D684696D",
        "PWD": "a1-b2-c3-d4", "KEYBOARD_LAYOUT": "de-latin1-nodeadkeys", "AUTH_TYPE": "oauth-2-device-code",
        "TOKEN_URL": "https://example.org/token", "SECRET_FILE": "secrets-1.json", "PATH": VALUE, "COMPASS_MODE": VALUE,
        "XAUTHORITY": "/home/a/.Xauthority", "PUBLIC_KEY": LETTERS,
    }  # fmt: skip
    assert secret_variables({**secret, **plain}, []) == secret
    assert secret_variables({"MINE": "x-1-y-2-z"}, ["MINE=api.example"]) == {"MINE": "x-1-y-2-z"}
    assert PASSWORD in secret_variables({"DATABASE_URL": ADDRESS}, []).values()


def test_ordinary_text_stays() -> None:
    """Nothing of jaato's own source and documents is masked."""
    secrets = Redactor()
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src", "docs", "compat", "bench", "*.md", "*.toml"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in listed.decode().split("\0"):
        path = ROOT / name
        if not name or path.is_symlink() or not path.is_file() or path.stat().st_size > 2_000_000:
            continue
        text = path.read_text("utf-8", "replace")
        masked = secrets.mask(text)
        assert masked is text, f"{name}: {PLACEHOLDER.findall(masked)[:3]}"


def test_hashes_and_ids_stay() -> None:
    """UUIDs, commit and content hashes, base64 of images, prose and class names are no secrets."""
    secrets = Redactor()
    image = base64.b64encode(bytes(range(256)) * 40).decode()
    samples = [
        *(str(uuid.UUID(int=n * 2**64 + n)) for n in range(1, 200)),
        "commit 7860d11aa90c2e5e1f0e8ae2b9c3d4e5f6a7b8c9", "sha256-" + "ab12" * 16, f"data:image/png;base64,{image}",
        "a task-force of risk-takers; disk-usage-0123456789abcdef0", "sk-fading-circle12 sk-container-id-1 hf_hub_download",
        "npm_config_registry=x npm_package_version", "-----BEGIN CERTIFICATE-----\n" + "QUJD" * 16,
        "-----BEGIN PRIVATE" + " KEY-----", "eyJ is how a token begins", "AKIA and ASIA", "SG.1", "pypi-publish-with-trusted-publishing",
    ]  # fmt: skip
    for sample in samples:
        assert secrets.mask(sample) == sample


@pytest.mark.parametrize(
    "hostile",
    [
        "sk-" * 40_000,
        "eyJ-" * 30_000,
        ("sk-" + "a" * 20 + "-") * 5_000,
        "://a:b" * 20_000,
        "ghp_a1" * 20_000,
        "-----BEGIN " * 12_000,
    ],
    ids=["sk", "jwt", "long", "address", "runs", "blocks"],
)
def test_hostile_text_takes_linear_time(hostile: str) -> None:
    """Beginnings repeated without end are looked at in seconds, not in hours; nothing of the text is lost."""
    secrets = Redactor()
    secrets.mask(hostile)
    stream, shown = secrets.stream(), 0
    for at in range(0, len(hostile), 30_000):
        shown += len(stream.feed(hostile[at : at + 30_000]))
    shown += len(stream.end())
    assert shown == len(hostile) or PLACEHOLDER.search(secrets.mask(hostile))


def test_where_a_placeholder_stands() -> None:
    """A placeholder is found at any depth, whoever made it; the word alone is none."""
    made = Redactor({"T": VALUE}).mask(VALUE)
    assert placeholder_in({"a": [{"b": f"x {made}"}]}) == "/a/0/b"
    assert placeholder_in({"a": "[masked:…] and [masked:x]"}) is None
