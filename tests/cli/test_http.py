"""`jaato run` over real HTTP: an OpenAI-compatible server on loopback."""

from __future__ import annotations

import json
from typing import Any

import anyio
from tests.cli.environment import CliEnvironment
from tests.providers.server import answer, events, serve, stream


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One chunk of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **more,
    }


def test_a_whole_run_over_http(desk: CliEnvironment) -> None:
    """Two calls in one reply run, their results go back, and the streamed answer is printed; the choice is explained."""
    (desk.work / "a.txt").write_text("alpha\n")
    (desk.work / "b.txt").write_text("beta\n")
    calls = [
        {
            "index": i,
            "id": f"call_{name}",
            "type": "function",
            "function": {"name": "readFile", "arguments": json.dumps({"path": f"{name}.txt"})},
        }
        for i, name in enumerate("ab")
    ]
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    first = stream(
        *events(
            chunk({"role": "assistant", "tool_calls": calls}), chunk({}, "tool_calls", usage=usage), "[DONE]"
        )
    )
    second = stream(
        *events(
            chunk({"content": "alpha, "}),
            chunk({"content": "beta"}),
            chunk({}, "stop", usage=usage),
            "[DONE]",
        )
    )

    async def main() -> None:
        async with serve(first, second, lists_models=False) as server:
            environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "JAATO_MODEL": "m"}
            made = await anyio.to_thread.run_sync(lambda: desk.run("run", "read both", environ=environ))
            assert made.returncode == 0, made.stderr
            assert made.stdout == "alpha, beta\n"
            assert made.stderr.splitlines()[0] == "openai m (OPENAI_BASE_URL is set)"
            assert made.stderr.count("> readFile") == 2
            assert "22 tokens in, 14 out" in made.stderr
            results = [m["content"] for m in server.requests[1].json()["messages"] if m["role"] == "tool"]
            assert ["alpha" in results[0], "beta" in results[1]] == [True, True]

    anyio.run(main)


def test_a_wrong_key_is_exit_3(desk: CliEnvironment) -> None:
    """A 401 ends the run at once with exit 3 and a message that says what to do about the key."""

    async def main() -> None:
        async with serve(
            answer({"error": {"message": "Incorrect API key"}}, 401), lists_models=False
        ) as server:
            environ = {
                "OPENAI_BASE_URL": f"{server.url}/v1",
                "OPENAI_API_KEY": "sk-wrong-key",
                "JAATO_MODEL": "m",
            }
            made = await anyio.to_thread.run_sync(lambda: desk.run("run", "hi", environ=environ))
            assert made.returncode == 3
            assert "OPENAI_API_KEY" in made.stderr
            assert "sk-wrong-key" not in made.stderr

    anyio.run(main)


def response(*items: dict[str, Any]) -> list[bytes]:
    """A response of the responses interface, whole in its last event."""
    usage = {"input_tokens": 11, "output_tokens": 7}
    whole = {"id": "resp_1", "status": "completed", "output": list(items), "usage": usage}
    return events({"type": "response.completed", "response": whole})


def test_the_interface_of_a_compatible_server_can_be_chosen(desk: CliEnvironment) -> None:
    """`--interface` and `JAATO_INTERFACE` choose how a compatible server is spoken to: a call, its result, an answer."""
    (desk.work / "a.txt").write_text("alpha\n")
    call = {"type": "function_call", "call_id": "call_1", "name": "readFile", "arguments": '{"path":"a.txt"}'}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "alpha"}]}
    chatted = stream(*events(chunk({"content": "by chat"}, "stop"), "[DONE]"))
    answers = [stream(*response(call)), stream(*response(said)), stream(*response(said)), chatted]

    async def main() -> None:
        async with serve(*answers, lists_models=False) as server:
            place = {"OPENAI_BASE_URL": f"{server.url}/v1", "JAATO_MODEL": "m"}
            asked = [
                (place, ("--interface", "responses"), "alpha\n"),
                (place | {"JAATO_INTERFACE": "responses"}, (), "alpha\n"),
                (place | {"JAATO_INTERFACE": "responses"}, ("--interface", "chat"), "by chat\n"),
            ]
            for environ, flags, text in asked:
                line = ("run", *flags, "read it")
                made = await anyio.to_thread.run_sync(lambda a=line, e=environ: desk.run(*a, environ=e))  # type: ignore[misc]
                assert (made.returncode, made.stdout) == (0, text), made.stderr
            assert [request.path for request in server.requests] == [
                "/v1/responses",
                "/v1/responses",
                "/v1/responses",
                "/v1/chat/completions",
            ]
            results = [item for item in server.requests[1].json()["input"] if "output" in item]
            assert [(item["call_id"], "alpha" in item["output"]) for item in results] == [("call_1", True)]

    anyio.run(main)


def test_an_interface_that_a_provider_does_not_have(desk: CliEnvironment) -> None:
    """`--interface` beside a provider that has only one ends with exit code 2 and says whom it is for."""
    made = desk.run("run", "--provider", "anthropic", "--interface", "chat", "hi")
    assert made.returncode == 2
    assert "--interface is for openai and ollama" in made.stderr
    wrong = desk.run("run", "hi", environ={"JAATO_INTERFACE": "completions"})
    assert wrong.returncode == 2
    assert "auto, chat, responses" in wrong.stderr
