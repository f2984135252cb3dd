"""Requests that are wrong, hostile or not allowed: each has its status, its code, and words that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai
import pytest
from tests.chat_api.api import Api, serving

from jaato.protocol.frames import Role
from jaato.providers.scripted import Step
from jaato.server.auth.tokens import add_token
from jaato.server.openai.application import chat_of
from jaato.server.openai.requests import MAX_MESSAGES

HI = [{"role": "user", "content": "Hi"}]
DEEP: Any = '{"model": "jaato", "messages": [{"role": "user", "content": "Hi"}], "metadata": ' + "[" * 100_000


async def post(api: Api, body: bytes | str, **headers: str) -> httpx2.Response:
    """What the server answers to these bytes."""
    async with httpx2.AsyncClient(timeout=30) as web:
        return await web.post(
            f"http://127.0.0.1:{api.port}/v1/chat/completions",
            content=body,
            headers={"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"} | headers,
        )


BAD: dict[str, tuple[bytes | str, str]] = {
    "nothing": (b"", "no JSON"),
    "no JSON": ("{", "no JSON"),
    "no text": (b"\xff\xfe", "no JSON"),
    "deep": (DEEP, "no JSON"),
    "a list": ("[]", "object"),
    "no model": (json.dumps({"messages": HI}), "model"),
    "no messages": (json.dumps({"model": "jaato"}), "messages"),
    "empty messages": (json.dumps({"model": "jaato", "messages": []}), "at least one"),
    "messages of text": (json.dumps({"model": "jaato", "messages": "Hi"}), "array"),
    "an unknown role": (
        json.dumps({"model": "jaato", "messages": [{"role": "king", "content": ""}]}),
        "king",
    ),
    "no text in it": (
        json.dumps({"model": "jaato", "messages": [{"role": "user", "content": " "}]}),
        "empty",
    ),
    "null": (json.dumps({"model": "jaato", "messages": [{"role": "user", "content": None}]}), "empty"),
    "the assistant is last": (
        json.dumps({"model": "jaato", "messages": [*HI, {"role": "assistant", "content": "A"}]}),
        "one of the user",
    ),
    "only a system prompt": (
        json.dumps({"model": "jaato", "messages": [{"role": "system", "content": "A"}]}),
        "one of the user",
    ),
    "a result without a call": (
        json.dumps(
            {"model": "jaato", "messages": [{"role": "tool", "content": "A", "tool_call_id": "x"}, *HI]}
        ),
        "answers no call",
    ),
    "sound": (
        json.dumps({"model": "jaato", "messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
        "input_audio",
    ),
    "too many messages": (json.dumps({"model": "jaato", "messages": HI * (MAX_MESSAGES + 1)}), "at most"),
    "two answers": (json.dumps({"model": "jaato", "messages": HI, "n": 2}), "Only one answer"),
    "logprobs": (json.dumps({"model": "jaato", "messages": HI, "logprobs": True}), "no logprobs"),
    "tools": (
        json.dumps({"model": "jaato", "messages": HI, "tools": [{"type": "function"}]}),
        "tools of its own",
    ),
    "functions": (json.dumps({"model": "jaato", "messages": HI, "functions": [{}]}), "tools of its own"),
    "no tokens": (json.dumps({"model": "jaato", "messages": HI, "max_tokens": -1}), "above zero"),
    "hot": (json.dumps({"model": "jaato", "messages": HI, "temperature": 9}), "0 to 2"),
    "many stops": (json.dumps({"model": "jaato", "messages": HI, "stop": list("abcde")}), "at most 4"),
    "a long model": (json.dumps({"model": "scripted/" + "m" * 2_000, "messages": HI}), "at most 300"),
    "many images": (
        json.dumps(
            {"model": "jaato", "messages": [{"role": "user", "content": [{"type": "image_url"}] * 101}]}
        ),
        "at most 100 images",
    ),
    "no completion tokens": (
        json.dumps({"model": "jaato", "messages": HI, "max_completion_tokens": 0}),
        "max_completion_tokens is a number above zero",
    ),
    "one limit that is wrong": (
        json.dumps({"model": "jaato", "messages": HI, "max_completion_tokens": 5, "max_tokens": -5}),
        "max_tokens is a number above zero",
    ),
    "a long stop": (json.dumps({"model": "jaato", "messages": HI, "stop": "x" * 1_001}), "1,000 characters"),
    "a voice": (
        json.dumps({"model": "jaato", "messages": HI, "modalities": ["text", "audio"]}),
        "Answers are text",
    ),
    "a model of two lines": (json.dumps({"model": "scripted/a\nb", "messages": HI}), "one line"),
    "an unknown format": (
        json.dumps({"model": "jaato", "messages": HI, "response_format": {"type": "xml"}}),
        "json_schema",
    ),
    "a format without a schema": (
        json.dumps({"model": "jaato", "messages": HI, "response_format": {"type": "json_schema"}}),
        "no schema",
    ),
    "an answer to continue": (
        json.dumps({"model": "jaato", "messages": [*HI, {"role": "assistant", "content": "A"}]}),
        "send a message that asks for it",
    ),
    "a file": (
        json.dumps({"model": "jaato", "messages": [{"role": "user", "content": [{"type": "file"}]}]}),
        "file",
    ),
    "a part without a type": (
        json.dumps({"model": "jaato", "messages": [{"role": "user", "content": [{"text": "a"}]}]}),
        "type",
    ),
    "not a number": ('{"model": "jaato", "messages": [], "temperature": NaN}', "no JSON"),
    "an empty stop": (json.dumps({"model": "jaato", "messages": HI, "stop": [""]}), "empty"),
    "half a character": ('{"model": "jaato", "messages": [{"role": "user", "content": "\\ud800"}]}', ""),
}


def test_bad_requests(tmp_path: Path) -> None:
    """Each is a 400 in the API's words, and leaves no session."""

    async def main() -> None:
        async with serving(tmp_path, [Step("never")]) as api:
            for name, (body, words) in BAD.items():
                answer = await post(api, body)
                assert answer.status_code == 400, (name, answer.text)
                error = answer.json()["error"]
                assert set(error) == {"message", "type", "param", "code"}, name
                assert error["type"] == "invalid_request_error", name
                assert words in error["message"], (name, error)
            assert api.sessions() == []

    anyio.run(main)


def test_parameters_that_change_nothing(tmp_path: Path) -> None:
    """What front ends send by habit is accepted: parameters without effect here, null for no value, empty lists."""

    async def main() -> None:
        body = {
            "model": "jaato",
            "messages": [{"role": "user", "content": "Hi", "name": "me", "extra": {}}],
            "n": 1,
            "tools": [],
            "stop": None,
            "temperature": None,
            "max_tokens": None,
            "stream": None,
            "stream_options": None,
            "top_p": 0.9,
            "seed": 1,
            "user": "me",
            "frequency_penalty": 0,
            "presence_penalty": 0,
            "logit_bias": {},
            "metadata": {"chat": "x"},
            "parallel_tool_calls": True,
            "service_tier": "auto",
        }
        async with serving(tmp_path, [Step("ok")] * 2) as api:
            assert (await post(api, json.dumps(body))).json()["choices"][0]["message"]["content"] == "ok"
            unwanted = body | {"tools": [{"type": "function"}], "tool_choice": "none"}
            assert (await post(api, json.dumps(unwanted))).status_code == 200

    anyio.run(main)


@pytest.mark.parametrize("field", ["tools", "functions"])
def test_tools_of_a_front_end(tmp_path: Path, field: str) -> None:
    """A chat front end offers its tools with every message, and is answered without them; calls that it requires are refused."""

    async def main() -> None:
        body = {"model": "jaato", "messages": HI, field: [{"type": "function", "function": {"name": "now"}}]}
        chat = {"X-OpenWebUI-Chat-Id": "c"}
        async with serving(tmp_path, [lambda _: Step("ok")] * 9) as api:
            for choice in ("auto", None):
                answer = await post(api, json.dumps(body | {"tool_choice": choice}), **chat)
                assert answer.json()["choices"][0]["message"]["content"] == "ok"
            named = {"type": "function", "function": {"name": "now"}}
            for required in ("required", named, 7):
                answer = await post(api, json.dumps(body | {"tool_choice": required}), **chat)
                assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
            refused = await post(api, json.dumps(body))
            assert "X-OpenWebUI-Chat-Id" in refused.json()["error"]["message"]

    anyio.run(main)


def test_size_method_and_path(tmp_path: Path) -> None:
    """A huge body is 413, another method 405 with Allow; the registry's paths stay the registry's."""

    async def main() -> None:
        async with serving(tmp_path, [Step("never")]) as api:
            answer = await post(api, b"x" * 8_000_001)
            assert (answer.status_code, answer.json()["error"]["type"]) == (413, "invalid_request_error")
            base = f"http://127.0.0.1:{api.port}"
            async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {api.token}"}) as web:
                answer = await web.get(f"{base}/v1/chat/completions")
                assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
                answer = await web.post(f"{base}/v1/models")
                assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
                assert answer.json()["error"]["code"] == "method_not_allowed"
                assert (await web.get(f"{base}/v1/tools")).json()[0]["name"]
                for name in ("embeddings", "responses", "chat/completions/"):
                    assert (
                        "/v1/chat/completions and"
                        in (await web.post(f"{base}/v1/{name}")).json()["error"]["message"]
                    )

    anyio.run(main)


def test_tokens_roles_hosts_and_origins(tmp_path: Path) -> None:
    """The gate of every interface holds here too; an agent acts as the owner."""

    async def main() -> None:
        (tmp_path / "state").mkdir(mode=0o700)
        roles: dict[Role, int] = {"viewer": 403, "approver": 403, "owner": 200}
        tokens = {role: add_token(tmp_path / "state", role, role, None) for role in roles}
        async with serving(tmp_path, [Step("ok")] * 9) as api:
            body = json.dumps({"model": "jaato", "messages": HI})
            for role, status in roles.items():
                answer = await post(api, body, Authorization=f"Bearer {tokens[role]}")
                assert answer.status_code == status, answer.text
                if status == 403:
                    assert answer.json()["error"]["type"] == "permission_error"
            async with openai.AsyncOpenAI(api_key=tokens["viewer"], base_url=api.sdk.base_url) as viewer:
                assert "jaato" in [one.id async for one in viewer.models.list()]
            answer = await post(api, body, Authorization="Bearer sk-wrong")
            assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
            assert (await post(api, body, Host="evil.example")).status_code == 421
            for origin in ("https://evil.example", "null", f"http://127.0.0.1:{api.port}@evil"):
                answer = await post(api, body, Origin=origin)
                assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")

    anyio.run(main)


@pytest.mark.parametrize("name", ["X-OpenWebUI-Chat-Id", "X-Conversation-Id", "X-Jaato-Session"])
def test_chat_ids_that_are_wrong(tmp_path: Path, name: str) -> None:
    """An id that is too long is refused by name; odd ones are ids as any other."""

    async def main() -> None:
        async with serving(tmp_path, [lambda _: Step("ok")] * 9) as api:
            body = json.dumps({"model": "jaato", "messages": HI})
            answer = await post(api, body, **{name: "x" * 201})
            assert answer.status_code == 400
            assert name.lower() in answer.json()["error"]["message"]
            for odd in ("../../etc/passwd", "'; DROP TABLE session;--", "a b", "%00"):
                assert (await post(api, body, **{name: odd})).status_code == 200

    anyio.run(main)


@pytest.mark.parametrize("name", ["voilà", "ein Maß", "猫"])
def test_names_in_other_scripts(name: str) -> None:
    """Names are UTF-8, whose bytes may look like the spaces of another encoding."""
    assert chat_of({"headers": [(b"x-jaato-session", name.encode())]}).session == name
