"""Secrets whose names say nothing: variables and headers of MCP servers and registries, credentials in arguments."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.cli.environment import CliEnvironment
from tests.kit import call as step
from tests.kit import say
from tests.providers.server import serve
from tests.secrets.canaries import leaks
from tests.secrets.test_command_line import FLAGS, called, replied
from tests.server.serving import opened, served, turn_of

from jaato.protocol.codec import encode
from jaato.providers.scripted import ScriptedProvider
from jaato.tools.redaction.patterns import find_configured_secrets, is_evident
from jaato.tools.redaction.redactor import Redactor

MARK = "Zq7" + "canary"


def canary(number: int) -> str:
    """One secret of the test's own; each has `MARK` in it."""
    return f"{MARK}-{number:03d}-pLk{number}"


BASIC = b64encode(f"app:{canary(20)}".encode()).decode()
USER = {
    "mine": {
        "command": "true",
        "env": {
            "PLAIN": canary(1),
            "REGION": "us-east-1",
            "LOG_LEVEL": "debug",
            "FROM": "${NEUTRAL}",
            "PORT": "8080",
        },
    },
    "far": {
        "url": "https://far.example/mcp",
        "headers": {"X-Thing": canary(2), "Authorization": f"Basic {BASIC}"},
    },
}
THEIRS = {"theirs": {"command": "true", "environment": {"ALSO": canary(3), "CACHE": "/var/cache/things"}}}
REGISTRIES = {"tools": {"url": "https://tools.example", "token": canary(4), "headers": {"X-Team": canary(5)}}}
NEUTRAL = canary(6)
CONFIGURED = [canary(1), canary(2), canary(3), canary(4), canary(5), NEUTRAL, canary(20), BASIC]
IN_TEXTS = [
    f"Authorization: Bearer {canary(30)}",
    f"authorization: token {canary(31)}",
    f"-H 'X-Api-Key: {canary(32)}'",
    f'--header "Proxy-Authorization: Basic {canary(33)}"',
    f"curl -sSu app:{canary(34)} https://x.example/",
    f'["curl", "--user", "app:{canary(35)}"]',
    f"https://app:{canary(36)}@x.example/",
    f'{{"headers": {{"Authorization": "Bearer {canary(37)}"}}}}',
    f"Authorization%3A%20Bearer%20{canary(38)}",
    f"curl \\\n  -u app:{canary(39)} x.example",
]
HARMLESS = [
    *(
        "us-east-1",
        "localhost:8080",
        "en_US.UTF-8",
        "gpt-4o-mini",
        "production",
        "application/json",
        "8080",
        "true",
    ),
    *("my-project-name-prod", "info,debug", "user@mail.example", "/usr/bin:/bin", "https://api.example/v1"),
    *(
        "--max-old-space-size=4096",
        "x86_64-linux-gnu",
        "127.0.0.1:5432",
        "123456789012",
        "~/.cache",
        "C:\\tools",
    ),
]
DOCUMENTATION = [
    "Give the token: Authorization: Bearer TOKEN.",
    "-H 'Authorization: Bearer ${TOKEN}' or <your-token>",
    "-H 'Authorization: Bearer YOUR_ACCESS_TOKEN'",
    "X-Api-Key: your-api-key",
    "curl -u user:pass https://x.example and curl -u $USER:$PASS",
    "docker run -u 1000:1000 image",
    "def authorization(self, request_scope): return application_default",
    "authorization_endpoint: https://issuer.example/authorize",
    "'Authorization': f'Bearer {token_value}'",
    "the bearer of this letter; Bearer authentication",
]


def configure(home: Path, config: Path, work: Path) -> None:
    """The files of a user and of a workspace."""
    for path, key, entries in (
        (home / ".mcp.json", "mcpServers", USER),
        (work / ".mcp.json", "mcpServers", THEIRS),
        (config / "registries.json", "registries", REGISTRIES),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({key: entries}))
        path.chmod(0o600)


def test_what_is_configured_leaves_nowhere(tmp_path: Path) -> None:
    """A model that prints every configured value, and calls with credentials in its arguments, is sent none of them again:
    they are in no request, no stream, no file of the state directory and no export; what is harmless is left alone."""
    desk = CliEnvironment(tmp_path)
    desk.env["NEUTRAL"] = NEUTRAL
    configure(Path(desk.env["HOME"]), desk.config, desk.work)
    (desk.work / "all.txt").write_text("\n".join([*CONFIGURED, "us-east-1 debug 8080 /var/cache/things"]))
    answers = [
        called("readFile", path="all.txt"),
        called("run", command="cat all.txt .mcp.json; printenv NEUTRAL"),
        *(
            called("run", command=f"printf %s '{text.replace(chr(39), chr(34))}' > used{number}")
            for number, text in enumerate(IN_TEXTS)
        ),
        replied({"content": "I used " + " and ".join(IN_TEXTS)}),
    ]

    async def main() -> str:
        async with serve(*answers) as server:
            environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "JAATO_MODEL": "m", "JAATO_PROVIDER": "openai"}
            made = await anyio.to_thread.run_sync(lambda: desk.run("run", *FLAGS, "go", environ=environ))
            assert made.returncode == 0, made.stderr
            assert len(server.requests) == len(answers)
            bodies = b"".join(request.body for request in server.requests).decode()
            assert "us-east-1 debug 8080 /var/cache/things" in bodies
            return bodies + made.stdout + made.stderr

    said = anyio.run(main)
    assert all(canary(30 + number) in (desk.work / f"used{number}").read_text() for number in range(10)), (
        "they ran as said"
    )
    session = desk.sessions()[0]["id"]
    for action in (["export", session], ["show", "--full", session], ["show", "--json", session]):
        shown = desk.run("sessions", *action)
        assert shown.returncode == 0, shown.stderr
        said += shown.stdout + shown.stderr
    assert MARK not in said
    assert BASIC not in said
    assert leaks(desk.state, MARK, BASIC) == []


def test_no_event_on_the_wire_has_one(tmp_path: Path) -> None:
    """Clients of a server watch calls with credentials, and what they print, without any."""
    script = ScriptedProvider(
        [
            step("run", command="cat all.txt"),
            *(step("run", command=f": {text}") for text in IN_TEXTS),
            say("I used " + " and ".join(IN_TEXTS)),
        ],
        keep_requests=True,
    )
    configure(tmp_path, tmp_path / ".config" / "jaato", tmp_path / "work")
    (tmp_path / "work" / "all.txt").write_text("\n".join(CONFIGURED))

    async def main() -> None:
        environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "NEUTRAL": NEUTRAL}
        async with served(tmp_path, script, environ=environ, yes=True) as server, server.client() as client:
            await turn_of(client, await opened(client, tmp_path / "work"), "go")
            assert len(script.requests) == len(IN_TEXTS) + 2
            wire = encode(client.events) + encode([one.messages for one in script.requests])
            assert wire.count(b"[masked:") > len(IN_TEXTS)
            assert MARK.encode() not in wire
            assert BASIC.encode() not in wire
        assert leaks(tmp_path / "state", MARK, BASIC) == []

    anyio.run(main)


@pytest.mark.parametrize("text", IN_TEXTS)
def test_a_credential_is_masked_wherever_a_stream_is_cut(text: str) -> None:
    """In whatever two or three pieces it comes, no part of it is shown; and it is masked once."""
    secrets = Redactor()
    assert MARK not in secrets.mask(text)
    assert secrets.mask(secrets.mask(text)) == secrets.mask(text)
    for first in range(0, len(text), 2):
        for second in range(first, len(text), 7):
            stream = secrets.stream()
            pieces = (text[:first], text[first:second], text[second:])
            assert MARK not in "".join(map(stream.feed, pieces)) + stream.end()


@pytest.mark.parametrize("value", HARMLESS)
def test_what_is_evidently_no_secret_is_not_masked(value: str) -> None:
    """Words, numbers, paths, places and addresses stand everywhere; they are configured for nearly every server."""
    assert is_evident(value)
    assert find_configured_secrets({"ANY": value, "Accept": value}) == {}


@pytest.mark.parametrize("text", DOCUMENTATION)
def test_documentation_is_left_alone(text: str) -> None:
    """What stands in the place of a credential in documentation and programs is none."""
    assert Redactor().mask(text) == text


@pytest.mark.parametrize(
    "value", [canary(1), "550e8400-e29b-41d4-a716-446655440000", "ab12-cd34-ef56-gh78", "hunter22"]
)
def test_a_configured_value_is_secret_by_what_it_is(value: str) -> None:
    """Whatever its name is; of a scheme and a token the token, and the password in one of basic authentication."""
    assert find_configured_secrets({"THING": value}) == {"THING": value}
    assert find_configured_secrets({"X-Any": f"Bearer {value}"}) == {"X-Any": value}
    pair = b64encode(f"app:{value}".encode()).decode()
    assert find_configured_secrets({"X-Any": f"Basic {pair}"}) == {"X-Any": pair, "X-Any.password": value}


def test_credentials_by_the_hundred_thousand_take_linear_time() -> None:
    """A text full of beginnings of commands and headers is looked through in the time of its length."""
    import time

    for text in ("curl -u a ", "curl ", "Authorization: ", "bearer  ", "-u curl "):
        began = time.process_time()
        Redactor().mask(text * 50_000)
        assert time.process_time() - began < 10
