"""What the Gemini dialect sends, to the Gemini API and to Vertex AI."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.providers.histories import TOOLS, check_gemini, read_blob

from jaato.abc.provider import ModelRequest
from jaato.errors import (
    AuthenticationError,
    ConfigError,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)
from jaato.protocol.messages import Media, Message, Opaque, Problem, Text, Thinking, ToolCall, ToolResult
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.errors import status_error
from jaato.providers.google_genai.dialect import GeminiDialect, VertexDialect, vertex_base_url
from jaato.providers.google_genai.models import describe, read_models

SIGNATURE = Opaque("gemini", Raw(b'"c2lnbmF0dXJl"'))


def user(text: str) -> Message:
    return Message("user", [Text(text)])


def said(*messages: Message, model: str = "gemini-3.1-pro") -> Any:
    """The messages as the wire has them, checked."""
    request = ModelRequest(model, messages, "Be brief.", TOOLS, read_blob=read_blob)
    return check_gemini(GeminiDialect().encode(request))["contents"]


def config(model: str, tools: list[ToolSpec] | None = None, **settings: Any) -> Any:
    """The generation config for some settings, checked."""
    request = ModelRequest(model, [user("hi")], "S", tools or [], ModelSettings(**settings))
    return check_gemini(GeminiDialect().encode(request)).get("generationConfig")


def loop(call: ToolCall, result: ToolResult) -> list[Message]:
    return [user("go"), Message("assistant", [call]), Message("tool", [result])]


def test_signatures_go_back_on_the_part_they_came_with() -> None:
    """A signature stays on its call or its text, even an empty text; unsigned thoughts stay behind."""
    call = ToolCall("c1", "readFile", {"path": "a"}, provider_id="fc1", opaque=SIGNATURE)
    messages = (
        user("go"),
        Message(
            "assistant", [Thinking("mm"), Thinking("hm", SIGNATURE), Text("x"), call, Text("", SIGNATURE)]
        ),
        Message("tool", [ToolResult("c1", "readFile", ok=True, content=[Text("A")])]),
    )
    thought, text, asked, empty = said(*messages)[1]["parts"]
    assert thought == {"text": "hm", "thought": True, "thoughtSignature": "c2lnbmF0dXJl"}
    assert text == {"text": "x"}
    assert asked["thoughtSignature"] == "c2lnbmF0dXJl"
    assert asked["functionCall"] == {"id": "fc1", "name": "readFile", "args": {"path": "a"}}
    assert empty == {"text": "", "thoughtSignature": "c2lnbmF0dXJl"}


def test_foreign_calls_are_excused_from_signing() -> None:
    """Newer models refuse a step whose first call is unsigned, so a foreign one carries the excuse."""
    calls = [ToolCall("c1", "readFile", {}, provider_id="toolu_1"), ToolCall("c2", "readFile", {})]
    results = [ToolResult(call.call_id, call.name, ok=True, content=[Text("A")]) for call in calls]
    messages = (user("go"), Message("assistant", [*calls]), Message("tool", [*results]))
    signed = [part.get("thoughtSignature") for part in said(*messages)[1]["parts"]]
    assert signed == ["skip_thought_signature_validator", None]
    assert [part.get("thoughtSignature") for part in said(*messages, model="gemini-2.5-pro")[1]["parts"]] == [
        None,
        None,
    ]


def test_results_carry_output_or_error() -> None:
    """A result names its call, and says `output` or `error`; an id is sent only where a provider gave one."""
    ok = loop(
        ToolCall("c1", "readFile", {}, provider_id="f1"),
        ToolResult("c1", "readFile", ok=True, content=[Text("A")]),
    )
    bad = loop(
        ToolCall("c1", "readFile", {}), ToolResult("c1", "readFile", ok=False, error=Problem("x", "broken"))
    )
    assert said(*ok)[2]["parts"][0]["functionResponse"] == {
        "id": "f1",
        "name": "readFile",
        "response": {"output": "A"},
    }
    assert said(*bad)[2]["parts"][0]["functionResponse"] == {
        "name": "readFile",
        "response": {"error": "x: broken"},
    }


def test_images_of_results_travel_where_the_generation_takes_them() -> None:
    """Newer models get an image inside the result, older ones beside it; what is gone becomes text."""
    content: list[Text | Media] = [Text("A"), Media("image/png", "png"), Media("image/jpeg", "gone")]
    messages = loop(ToolCall("c1", "readFile", {}), ToolResult("c1", "readFile", ok=True, content=content))
    inside, lost = said(*messages)[2]["parts"]
    assert inside["functionResponse"]["parts"][0]["inlineData"]["mimeType"] == "image/png"
    assert "no longer available" in lost["text"]
    response, image, lost = said(*messages, model="gemini-2.5-flash")[2]["parts"]
    assert "parts" not in response["functionResponse"]
    assert image["inlineData"]["mimeType"] == "image/png"


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gemini-3.1-pro", "high", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro", "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-3-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemini-flash-latest", "low", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-2.5-flash", "medium", {"includeThoughts": True, "thinkingBudget": 8192}),
        ("gemini-2.5-pro", None, {"includeThoughts": True}),
        ("gemini-2.0-flash", "high", None),
        ("gemini-2.5-flash-image", "high", None),
        ("gemma-3-27b-it", "high", None),
    ],
)
def test_effort_is_asked_for_in_the_form_of_the_generation(model: str, effort: str, expected: Any) -> None:
    """Newer models take a level, older ones a budget, and what does not think is not asked to."""
    assert (config(model, effort=effort) or {}).get("thinkingConfig") == expected


def test_settings_are_passed_through() -> None:
    """Temperature, output limit and stops arrive under the API's names; at most five stops."""
    found = config(
        "gemini-2.0-flash", temperature=0.5, max_output_tokens=9, stop=["a", "", "b", "c", "d", "e", "f"]
    )
    assert found == {"temperature": 0.5, "maxOutputTokens": 9, "stopSequences": ["a", "b", "c", "d", "e"]}


def test_a_schema_beside_tools_is_said_in_words_to_older_models() -> None:
    """A response schema is enforced where the API takes it; older models with tools are told it instead."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert config("gemini-3.1-pro", TOOLS, response_schema=schema)["responseJsonSchema"] == schema
    assert config("gemini-2.0-flash", response_schema=schema)["responseMimeType"] == "application/json"
    request = ModelRequest(
        "gemini-2.0-flash", [user("hi")], "S", TOOLS, ModelSettings(response_schema=schema)
    )
    body = check_gemini(GeminiDialect().encode(request))
    assert "generationConfig" not in body
    assert '"integer"' in body["systemInstruction"]["parts"][0]["text"]


def test_the_key_is_never_in_the_url() -> None:
    """The key travels in a header, and a model's name cannot leave its place in the path."""
    dialect = GeminiDialect()
    odd = dialect.path(ModelRequest("gemini-3?key=a#b", []))
    assert odd == "/v1beta/models/gemini-3%3Fkey%3Da%23b:streamGenerateContent?alt=sse"
    assert (
        dialect.path(ModelRequest("gemini-3", [])) == "/v1beta/models/gemini-3:streamGenerateContent?alt=sse"
    )
    assert (
        dialect.path(ModelRequest("tunedModels/m", []))
        == "/v1beta/tunedModels/m:streamGenerateContent?alt=sse"
    )
    assert dialect.headers("secret") == {"x-goog-api-key": "secret"}


class Shape(msgspec.Struct):
    """The pieces of a request the prompt cache is built over."""

    system: Raw = msgspec.field(name="systemInstruction")
    tools: list[dict[str, list[Raw]]]
    contents: list[Raw]


@pytest.mark.spec("C6", "Providers and types (S3)")
def test_fifty_activations_leave_what_was_sent_as_it_was() -> None:
    """Tools are appended in activation order; the bytes of everything sent before stay."""
    dialect = GeminiDialect()
    tools = [TOOLS[0]]
    messages = [user("go")]
    encoded: dict[Any, Any] = {}
    before: Shape | None = None
    for number in range(50):
        body = dialect.encode(ModelRequest("gemini-3.1-pro", messages, "sys", list(tools), encoded=encoded))
        shape = msgspec.json.decode(body, type=Shape)
        if before is not None:
            past = before.tools[0]["functionDeclarations"]
            assert shape.tools[0]["functionDeclarations"][: len(past)] == past
            assert shape.system == before.system
            assert shape.contents[: len(before.contents)] == before.contents
        before = shape
        tools.append(ToolSpec(f"tool_{number}", "Does.", {"type": "object", "properties": {}}))
        call = ToolCall(f"c{number}", "get_tool_schemas", {"names": [f"tool_{number}"]}, opaque=SIGNATURE)
        result = ToolResult(call.call_id, call.name, ok=True, content=[Text("{…}")])
        messages += [Message("assistant", [call]), Message("tool", [result])]


def fault(
    status: int, word: str, message: str = "m", *details: dict[str, Any], wrapped: bool = False
) -> ProviderError:
    error = {"error": {"code": status, "status": word, "message": message, "details": details}}
    return status_error("google_genai", status, {}, msgspec.json.encode([error] if wrapped else error))


@pytest.mark.parametrize(
    ("status", "word", "message", "expected"),
    [
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", AuthenticationError),
        (401, "UNAUTHENTICATED", "Request had invalid authentication credentials.", AuthenticationError),
        (403, "PERMISSION_DENIED", "no", AuthenticationError),
        (404, "NOT_FOUND", "models/x is not found", ModelNotFound),
        (400, "INVALID_ARGUMENT", "The input token count (2) exceeds the maximum", ContextOverflow),
        (400, "INVALID_ARGUMENT", "Unknown name", InvalidRequest),
        (400, "FAILED_PRECONDITION", "User location is not supported", InvalidRequest),
        (429, "RESOURCE_EXHAUSTED", "quota", RateLimited),
        (500, "INTERNAL", "oops", ServerFault),
        (503, "UNAVAILABLE", "The model is overloaded.", ServerFault),
        (504, "DEADLINE_EXCEEDED", "late", ServerFault),
        (503, "", "what", ServerFault),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_errors_are_typed(
    status: int, word: str, message: str, expected: type[ProviderError], wrapped: bool
) -> None:
    """Each error of the API becomes the error a caller can act on, in an array or not."""
    error = fault(status, word, message, wrapped=wrapped)
    assert type(error) is expected
    assert (error.status, error.provider) == (status, "google_genai")
    assert message in str(error)


def test_details_say_how_long_to_wait_and_whose_fault_it_is() -> None:
    """`RetryInfo` gives the wait; `ErrorInfo` tells a wrong key from a wrong request."""
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    assert fault(429, "RESOURCE_EXHAUSTED", "quota", retry).retry_after_s == 34.5
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    assert isinstance(fault(400, "INVALID_ARGUMENT", "bad", reason), AuthenticationError)
    assert isinstance(status_error("google_genai", 502, {}, b"<html>bad gateway"), ServerFault)


def test_vertex_is_the_same_dialect_in_another_place() -> None:
    """On Vertex AI a model lives below project and location, a token is a bearer, bad names are refused."""
    dialect = VertexDialect("my-project", "us-central1")
    assert dialect.path(ModelRequest("gemini-2.5-flash", [])) == (
        "/v1beta1/projects/my-project/locations/us-central1/publishers/google/models/gemini-2.5-flash"
        ":streamGenerateContent?alt=sse"
    )
    assert dialect.headers("t") == {"authorization": "Bearer t"}
    assert vertex_base_url("us-central1") == "https://us-central1-aiplatform.googleapis.com"
    assert vertex_base_url("global") == "https://aiplatform.googleapis.com"
    for bad in ("", "a/b", "x?y"):
        with pytest.raises(ConfigError, match="GOOGLE_CLOUD_PROJECT"):
            VertexDialect(bad, "global")


def test_models_are_known_by_name_and_by_list() -> None:
    """Limits hold for the generations that have them; the API's own list says more, and skips the rest."""
    assert describe("gemini-2.5-flash").context_limit == 1_048_576
    assert describe("gemini-1.5-pro").context_limit is None
    assert not describe("gemma-3").thinking
    listed = {
        "models": [
            {
                "name": "models/gemini-9",
                "inputTokenLimit": 7,
                "outputTokenLimit": 3,
                "supportedGenerationMethods": ["generateContent"],
                "thinking": False,
            },
            {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]},
        ],
        "nextPageToken": "abc",
    }
    (model,), path = read_models(msgspec.json.encode(listed))
    assert (model.id, model.context_limit, model.output_limit, model.thinking) == ("gemini-9", 7, 3, False)
    assert path == "/v1beta/models?pageSize=1000&pageToken=abc"
