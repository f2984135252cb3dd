"""A session that a chat front end has begun, joined by a person at another client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from openai import OpenAI
from tests.page.browser import need_chromium
from tests.page.serve_page import HOLD
from tests.pairs.faces import FACES, Scene, call, scene

STEPS = [
    {"text": "Hello."},
    call("printf asked > a.txt", "write", text=f"The first half, {HOLD} and the second half."),
    {"text": "It is written."},
    call("printf two > b.txt", "write"),
    {"text": "It was denied."},
]


def ask(stage: Scene, text: str) -> str:
    """The answer of the endpoint to a message of one chat."""
    token = (stage.server.home / "state/server-token").read_text().strip()
    with OpenAI(api_key=token, base_url=f"{stage.server.origin}/v1", max_retries=0) as sdk:
        made = sdk.chat.completions.create(
            model="jaato",
            messages=[{"role": "user", "content": text}],
            extra_headers={"X-Jaato-Session": "tour"},
        )
    return made.choices[0].message.content or ""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.system] if kind in ("page", "terminal") else [pytest.mark.slow])
        for kind in FACES
    ],
)
def test_a_client_joins_a_chat_and_answers(tmp_path: Path, kind: str) -> None:
    """It sees the chat's messages and the streamed text, and its answer counts; after it has left, a call is denied with
    the reason and a way to allow it in the text."""
    if kind == "page":
        need_chromium()
    with scene(tmp_path, *STEPS) as stage, ThreadPoolExecutor(1) as thread:
        assert ask(stage, "Good day.") == "Hello."
        session_id = stage.session_id()
        face = FACES[kind](stage)
        with face.open(session_id):
            face.see("Good day", "Hello")
            answer = thread.submit(ask, stage, "Write it.")
            face.see("Write it", "The first half")
            (stage.work / "go").touch()
            face.see("second half")
            face.allow()
            face.see("It is written")
            assert answer.result().endswith("It is written.")
            face.leave()
        assert (stage.work / "a.txt").read_text() == "asked"
        denied = ask(stage, "Write again.")
        assert denied.startswith("> Denied: ")
        assert "Only someone who is asked can allow it" in denied
        assert f"jaato attach {session_id}" in denied
        assert denied.endswith("It was denied.")
        assert not (stage.work / "b.txt").exists()
