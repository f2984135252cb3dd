"""What the documents' snippets are run on: a directory, variables, and a server in the place of a model."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from tests.providers.server import Answer, Server, answer, events, serve, stream

SNIPPETS = Path(__file__).parent / "snippets"
TOKEN = {"access_token": "ya29.test", "expires_in": 3600, "token_type": "Bearer"}
Names = dict[str, Any]


@dataclass
class Stage:
    """One snippet's surroundings: `path` is the current directory, `out` reads what was printed so far."""

    path: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    said: list[str] = field(default_factory=list)

    def out(self) -> str:
        """Everything that was printed to stdout since the start."""
        self.said.append(self.capsys.readouterr().out)
        return "".join(self.said)


def run(name: str, names: Names) -> Names:
    """Run a committed block exactly as it is printed, in these names."""
    path = SNIPPETS / f"{name}.py"
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


def gemini(text: str = "", call: tuple[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """One chunk of a Gemini reply that ends it: text, or a call."""
    part: dict[str, Any] = {"text": text}
    if call is not None:
        part = {"functionCall": {"name": call[0], "args": call[1]}}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}


def said(*pieces: str) -> Answer:
    """A whole streamed Gemini reply, a chunk a piece."""
    begun = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]} for text in pieces[:-1]
    ]
    return stream(*events(*begun, gemini(pieces[-1])))


def called(name: str, **arguments: Any) -> Answer:
    """A Gemini reply that makes one call."""
    return stream(*events(gemini(call=(name, arguments))))


def endless(text: str) -> Answer:
    """A reply that says something and never ends."""
    begun = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}
    return stream(*events(begun), end="hold")


@functools.cache
def private_key() -> str:
    """A key for the service account; made once."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    return made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


@contextmanager
def vertex_server(stage: Stage, *answers: Answer) -> Iterator[Server]:
    """A server that gives a token first, then the answers; the variables make it Google's and Vertex AI's place."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serve(answer(TOKEN), *answers)) as server,
    ):
        account = {
            "type": "service_account",
            "client_email": "agent@my-project.iam.gserviceaccount.com",
            "private_key": private_key(),
            "token_uri": f"{server.url}/token",
        }
        path = stage.path.parent / "account.json"
        path.write_text(json.dumps(account))
        stage.monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        stage.monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
        yield server


def written(path: Path, document: Any) -> None:
    """A JSON file, with the directories it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
