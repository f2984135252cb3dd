"""Messages and their parts as providers, clients and logs see them."""

# Annotations are not postponed here: msgspec would compile each one as text.

from typing import Any, Literal

from msgspec import Raw, Struct, field

Role = Literal["user", "assistant", "tool"]
Source = Literal["user", "parent", "system", "child"]
"""Who a user message comes from; it is shown to the model, which cannot mistake one for another."""


class Opaque(Struct, frozen=True, gc=False, omit_defaults=True):
    """A provider's own bytes for a part (an encrypted thought, an item id), given back to that dialect unchanged."""

    dialect: str
    data: Raw


class AnyPart(Struct, frozen=True, gc=False):
    """What every kind of part answers in the documented words; each is None where it does not apply."""

    @property
    def text(self) -> str | None:
        """The words of the part."""
        return None

    @property
    def function_call(self) -> "ToolCall | None":
        """The part as a call."""
        return self if isinstance(self, ToolCall) else None

    @property
    def function_response(self) -> "ToolResult | None":
        """The part as a result."""
        return self if isinstance(self, ToolResult) else None


class Text(AnyPart, frozen=True, gc=False, tag="text", omit_defaults=True):
    """Plain text."""

    text: str
    opaque: Opaque | None = None


class Thinking(AnyPart, frozen=True, gc=False, tag="thinking", omit_defaults=True):
    """What the model thought; `opaque` carries the signature its own dialect wants back."""

    text: str
    opaque: Opaque | None = None


class ToolCall(AnyPart, frozen=True, gc=False, tag="tool_call", omit_defaults=True):
    """A call the model asks for; `call_id` is ours, `provider_id` the provider's own.

    `malformed` is the raw argument text when it was no JSON object; `arguments` is then empty.
    """

    call_id: str
    name: str
    arguments: dict[str, Any]
    provider_id: str | None = None
    malformed: str | None = None
    opaque: Opaque | None = None

    @property
    def id(self) -> str:
        """`call_id`, as it is documented."""
        return self.call_id

    @property
    def args(self) -> dict[str, Any]:
        """`arguments`, as they are documented."""
        return self.arguments


class Media(AnyPart, frozen=True, gc=False, tag="media", omit_defaults=True):
    """An image or document; its bytes are the blob with this SHA-256."""

    mime_type: str
    blob: str
    size_bytes: int = 0
    name: str | None = None


class Refusal(AnyPart, frozen=True, gc=False, tag="refusal"):
    """The model declined, in its own words."""

    text: str


class Problem(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why something failed: a stable code, a message that says what to do, and whether a retry can help."""

    code: str
    message: str
    retryable: bool = False
    traceback: str | None = None
    details: dict[str, Any] | None = None


class ToolResult(AnyPart, frozen=True, gc=False, tag="tool_result", omit_defaults=True):
    """What a call gave back: content for the model, `structured` for programs, a `handle` to all of it if cut."""

    call_id: str
    name: str
    ok: bool
    content: list[Text | Media] = field(default_factory=list)
    structured: Any = None
    handle: str | None = None
    error: Problem | None = None
    provider_id: str | None = None

    @property
    def result(self) -> Any:
        """What the call gave, as it is documented: the data, else the text; of a failed one the message."""
        if self.error is not None:
            return self.error.message
        if self.structured is not None:
            return self.structured
        return "".join(self.texts)

    @property
    def texts(self) -> list[str]:
        """The text parts of the content."""
        return [part.text for part in self.content if isinstance(part, Text)]

    @property
    def exit_code(self) -> int | None:
        """The exit code of a command; None for other calls."""
        code = self.structured.get("exit_code") if isinstance(self.structured, dict) else None
        return code if isinstance(code, int) else None

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return not self.ok


Part = Text | Thinking | ToolCall | ToolResult | Media | Refusal


class Message(Struct, frozen=True, gc=False, omit_defaults=True):
    """One message of a conversation; tool results travel together in one message with role `tool`. `by` is its author,
    as the server knows its clients by name."""

    role: Role
    parts: list[Part]
    id: str = ""
    source: Source = "user"
    provider: str | None = None
    model: str | None = None
    once: str = ""
    """The client's own word for it (`message.send`), by which one that is sent again is known."""
    by: str = ""

    @property
    def words(self) -> str:
        """The text, without what plugins added to it."""
        first = self.parts[0] if self.parts else None
        return first.text if isinstance(first, Text) else ""

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def function_calls(self) -> list[ToolCall]:
        """The calls this message asks for, in order."""
        return [part for part in self.parts if isinstance(part, ToolCall)]


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens of one model call; `input_tokens` includes the cached ones (OpenTelemetry GenAI names)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """The sum of both."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


FinishReason = Literal["stop", "tool_calls", "length", "refusal", "cancelled", "error", "unknown"]
