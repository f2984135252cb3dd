"""Titles, tags and the like that front ends ask for by themselves: answered by the model alone, and recorded nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from tests.chat_api.api import serving

from jaato.abc.provider import ModelRequest
from jaato.providers.scripted import ScriptedProvider, Step

CHAT = "<chat_history>\nUSER: Hi\n</chat_history>"
PROMPTS = {
    "Open WebUI, title": f"### Task:\nGenerate a concise, 3-5 word title.\n### Chat History:\n{CHAT}",
    "Open WebUI, tags": f"### Task:\nGenerate 1-3 broad tags.\n### Chat History:\n{CHAT}",
    "Open WebUI, follow-ups": f"### Task:\nSuggest 3-5 relevant follow-up questions.\n### Chat History:\n{CHAT}",
    "Open WebUI, queries": f"### Task:\nAnalyze the chat history to determine the necessity of a search.\n{CHAT}",
    "Open WebUI, autocompletion": f"### Task:\nYou are an autocompletion system.\n{CHAT}\n<text>Hel</text>",
    "Open WebUI, emoji": "Your task is to reflect the speaker's likely facial expression through a fitting emoji. Hi",
    "LibreChat, title": "Provide a concise, 5-word-or-less title for the conversation, using title case conventions.",
    "LibreChat, language": "Analyze this conversation and provide:\n1. The detected language of the conversation",
}
OWN = {
    "a question about tasks": "### Task:\nRead a.txt",
    "retrieved documents": "### Task:\nRespond to the user query using the provided context.\n<context>a</context>\nHi",
    "a retrieved conversation": (
        "### Task:\nRespond to the user query using the provided context.\n"
        f"<context>{CHAT}</context>\nWhat is it about?"
    ),
    "a title": "Please provide a concise, 5-word-or-less title for the conversation we had yesterday",
}


def marked(**fields: Any) -> dict[str, Any]:
    """Options of a request."""
    return fields


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_known_prompts(tmp_path: Path, prompt: str) -> None:
    """The prompts of Open WebUI and LibreChat are recognized, with the id of the chat they are about, streamed or not."""

    async def main() -> None:
        provider = ScriptedProvider(
            [Step("agent"), Step('{"title": "Tea"}', purpose="task")], keep_requests=True
        )
        async with serving(tmp_path, provider) as api:
            chat = {"X-OpenWebUI-Chat-Id": "c1"}
            answer = await api.ask(("user", prompt), extra_headers=chat, max_tokens=50)
            assert answer.choices[0].message.content == '{"title": "Tea"}'
            stream = await api.ask(("user", prompt), extra_headers=chat, stream=True)
            assert "".join([one.choices[0].delta.content or "" async for one in stream]) == '{"title": "Tea"}'
            request = provider.requests[0]
            assert (request.tools, request.system, request.settings.max_output_tokens) == ((), "", 50)
            assert api.sessions() == []
            assert (await api.ask(("user", "Hi"), extra_headers=chat)).choices[0].message.content == "agent"
            assert len(api.sessions()) == 1

    anyio.run(main)


@pytest.mark.parametrize(
    "mark",
    [
        marked(extra_headers={"X-OpenWebUI-Task": "title_generation"}),
        marked(extra_body={"metadata": {"task": "tags_generation"}}),
        marked(extra_body={"task": "title"}),
        marked(model="jaato-task"),
    ],
)
def test_marks(tmp_path: Path, mark: dict[str, Any]) -> None:
    """A request is marked by the header, a field of the body, or the model."""

    async def main() -> None:
        async with serving(tmp_path, [Step("agent"), Step("aside", purpose="task")]) as api:
            answer = await api.ask(("system", "Be brief."), ("user", "Anything"), **mark)
            assert answer.choices[0].message.content == "aside"
            assert api.sessions() == []

    anyio.run(main)


@pytest.mark.parametrize(
    ("prompt", "value"),
    [*((prompt, "") for prompt in PROMPTS.values()), (PROMPTS["Open WebUI, title"], "none")],
)
def test_the_header_decides(tmp_path: Path, prompt: str, value: str) -> None:
    """A front end that sends the header sends it empty with messages of users, whatever those look like."""

    async def main() -> None:
        async with serving(tmp_path, [Step("agent"), Step("aside", purpose="task")]) as api:
            answer = await api.ask(("user", prompt), extra_headers={"X-OpenWebUI-Task": value})
            assert answer.choices[0].message.content == "agent"

    anyio.run(main)


@pytest.mark.parametrize("prompt", OWN.values(), ids=OWN)
def test_messages_of_users(tmp_path: Path, prompt: str) -> None:
    """What only resembles such a prompt goes to the agent, and so does a placeholder that was not filled in."""

    async def main() -> None:
        async with serving(tmp_path, [Step("agent"), Step("aside", purpose="task")]) as api:
            for_none = {"X-OpenWebUI-Task": "{{TASK}}"}
            answer = await api.ask(
                ("user", prompt), extra_headers=for_none, extra_body={"metadata": {"task": None}}
            )
            assert answer.choices[0].message.content == "agent"

    anyio.run(main)


def test_a_task_that_fails(tmp_path: Path) -> None:
    """A failing model is an error with its status."""

    async def main() -> None:
        def fail(_: ModelRequest) -> Step:
            return Step(error="rate_limited", retry_after_s=7)

        async with serving(tmp_path, [fail]) as api:
            with pytest.raises(openai.RateLimitError) as caught:
                await api.ask(("user", "Anything"), model="jaato-task")
            assert caught.value.response.headers["retry-after"] == "7"

    anyio.run(main)
