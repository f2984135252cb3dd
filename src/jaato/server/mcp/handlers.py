"""Handlers of the MCP server: what each request of a client does, and tools and results as MCP writes them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as mcp
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from jaato.errors import JaatoError, StoreError, UnknownTool
from jaato.protocol.codec import encode
from jaato.protocol.messages import Media, Problem, Text, ToolResult
from jaato.protocol.specs import Access, ToolSpec
from jaato.server.auth.identity import KEY
from jaato.server.mcp.elicitation import Form, FormResponse, one_line
from jaato.server.mcp.list_changes import Changes, Notify
from jaato.server.mcp.sessions import ANSWER_S, SCHEME, ClientCall, ToolSession, uri_of
from jaato.server.tool_sessions import ToolSessions
from jaato.tools.call import problem_of
from jaato.tools.filesystem.text_encoding import decodable_prefix
from jaato.version import __version__

if TYPE_CHECKING:
    from jaato.server.registry.requests import Principal


class RegistryKeyVerifier:
    """The keys of a registry's, at the paths of a server that has nothing else."""

    def __init__(self, keys: Any) -> None:
        self._keys = keys

    def verify_key(self, _path: str, key: str) -> Any:
        """What a key gives. Raises `Refused` for one that has asked too often."""
        return self._keys.authenticate(key)

    def is_valid(self, key_admission: Any) -> bool:
        """Whether it still gives that."""
        return bool(self._keys.is_valid(key_admission))


def principal_of(ctx: ServerRequestContext[Any, Any]) -> Principal | None:
    """Who came in with a key; None for whoever may do everything."""
    if ctx.request is None:
        return None
    admission = ctx.request.scope.get("state", {}).get(KEY)
    key_admission = None if admission is None else admission.key
    return None if key_admission is None else key_admission.principal


def check_scope(ctx: ServerRequestContext[Any, Any], scope: str) -> Principal | None:
    """Who makes a request that needs this scope. Raises `MCPError` where the key does not have it."""
    principal = principal_of(ctx)
    if principal is not None and scope not in principal.scopes:
        raise MCPError(mcp.INVALID_REQUEST, f"This needs a key with the scope {scope}.")
    return principal


def sees(principal: Principal | None, name: str) -> bool:
    """Whether a caller may use such a tool."""
    return principal is None or principal.visibility is None or principal.visibility.has(name)


PAGE = 500
MAX_READ_BYTES = 1_000_000
PROGRESS_CHARS = 2_000
RESULT_URI = re.compile(re.escape(SCHEME) + r"([0-9a-f]{64})(?:\?offset=(\d{1,15}))?")
TEMPLATE = SCHEME + "{digest}{?offset}"

Context = ServerRequestContext[Any, Any]


class Offered(Server[Any]):
    """A server that says, wherever it is asked, that its list of tools changes."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What it says of itself in the older protocol's handshake."""
        changes = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changes, experimental_capabilities, extensions)


class Handlers:
    """Answers requests. `key_of` says to which visit a request belongs."""

    def __init__(self, sessions: ToolSessions) -> None:
        self.sessions = sessions
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus, max_subscriptions=1_000)
        self.changes = Changes(sessions, self._publish)

    def server(self) -> Server[Any]:
        """The server of these handlers."""
        return Offered(
            "jaato",
            version=__version__,
            instructions=self.sessions.offer.instructions(self.sessions.catalog),
            get_tool_input_schema=self._schema,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_subscriptions_listen=self.listening,
        )

    # --- tools -------------------------------------------------------------------------------------------------

    async def list_tools(
        self, ctx: Context, params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListToolsResult:
        """The tools declared to this client, in pages."""
        principal = check_scope(ctx, "tools:read")
        tool_session = self.sessions.get(key_of(ctx))
        start = start_of(params.cursor if params is not None else None)
        specs, more = await self.sessions.page(tool_session, start, PAGE)
        if not more:
            self.changes.record(key_of(ctx), notifier(ctx), partial(sees, principal))
        return mcp.ListToolsResult(
            tools=[tool_of(spec) for spec in specs if sees(principal, spec.name)],
            next_cursor=str(start + PAGE) if more else None,
        )

    async def call_tool(
        self, ctx: Context, params: mcp.CallToolRequestParams
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        """Run a tool through the pipeline, or go on with a call whose question is answered here."""
        arguments = params.arguments or {}
        principal = check_scope(ctx, "tools:invoke")
        found = self.sessions.catalog.find(params.name)
        if found is not None and not (
            self.sessions.offer.scope(found.tool) and sees(principal, found.tool.name)
        ):
            raise MCPError(mcp.INVALID_PARAMS, f"Unknown tool: {one_line(params.name, 200)}")
        try:
            await self.sessions.begin()
            tool_session = await self.sessions.open_session(
                key_of(ctx),
                self.sessions.client_prefix + client_of(ctx) if principal is None else principal.name,
            )
            if params.request_state is not None:
                call = tool_session.unpark(params.request_state, params.name, arguments)
                if call is None:
                    raise MCPError(mcp.INVALID_PARAMS, "This question is no longer open; call the tool anew.")
                answer(call, params.input_responses)
            else:
                call = await tool_session.begin(params.name, arguments, answerable=answerable(ctx))
        except JaatoError as error:
            return make_failure(problem_of(error))
        return await self._follow(ctx, tool_session, call)

    async def _follow(
        self, ctx: Context, tool_session: ToolSession, call: ClientCall
    ) -> mcp.CallToolResult | mcp.InputRequiredResult:
        """Wait for a call to end, or to need an answer that only another request can bring."""
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        steps, activated = 0, tool_session.activated
        try:
            while not call.over:
                await call.wait_for_change()
                if text := call.take_output():
                    steps += 1
                    await ctx.session.report_progress(steps, None, text[-PROGRESS_CHARS:])
                form = call.form
                if form is not None and not form.answered.is_set():
                    if modern:
                        return make_input_required(form, tool_session.park(call))
                    form.respond(await elicit(ctx, form))
        except BaseException:
            await call.stop()
            raise
        if tool_session.activated != activated:
            await self._list_changed(ctx, modern=modern)
        return make_result(call, tool_session, any_json=modern)

    async def _list_changed(self, ctx: Context, *, modern: bool) -> None:
        """Tell the client that its list of tools has grown, before the result that let it grow."""
        self.changes.record(key_of(ctx), notifier(ctx), partial(sees, principal_of(ctx)))
        if modern:
            await self._publish()
        else:
            await ctx.session.send_notification(mcp.ToolListChangedNotification(), ctx.request_id)

    async def _publish(self) -> None:
        await self._bus.publish(ToolsListChanged())

    def _schema(self, name: str) -> dict[str, Any] | None:
        found = self.sessions.catalog.find(name)
        return None if found is None else found.tool.spec.parameters

    # --- resources ---------------------------------------------------------------------------------------------

    async def list_resources(
        self, ctx: Context, params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourcesResult:
        """The results of this client's calls that are larger than what it was sent."""
        tool_session = self.sessions.get(key_of(ctx))
        handles = tool_session.handles if tool_session is not None else {}
        return mcp.ListResourcesResult(
            resources=[
                mcp.Resource(uri=uri_of(handle), name=f"{tool} result") for handle, tool in handles.items()
            ]
        )

    async def list_templates(
        self, ctx: Context, params: mcp.PaginatedRequestParams | None
    ) -> mcp.ListResourceTemplatesResult:
        """How a long result is read piece by piece."""
        text = f"A result from a byte on, {MAX_READ_BYTES:,} bytes at most."
        template = mcp.ResourceTemplate(uri_template=TEMPLATE, name="result", description=text)
        return mcp.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, ctx: Context, params: mcp.ReadResourceRequestParams
    ) -> mcp.ReadResourceResult:
        """A piece of a result of this very client."""
        uri = str(params.uri)
        match = RESULT_URI.fullmatch(uri)
        tool_session = self.sessions.get(key_of(ctx))
        if match is None or tool_session is None:
            raise missing(uri)
        try:
            data = tool_session.read(match[1], int(match[2] or 0), MAX_READ_BYTES)
        except StoreError:
            raise missing(uri) from None
        return mcp.ReadResourceResult(contents=[contents_of(uri, data)])


def notifier(ctx: Context) -> Notify | None:
    """What tells the client that its list of tools has become another; None for one that listens, or does not."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None
    return partial(ctx.session.send_notification, mcp.ToolListChangedNotification())


def missing(uri: str) -> MCPError:
    """There is no such resource."""
    text = f"There is no resource {one_line(uri, 200)} of this session."
    return MCPError(mcp.INVALID_PARAMS, text, {"uri": uri[:200]})


def make_result(call: ClientCall, tool_session: ToolSession, *, any_json: bool) -> mcp.CallToolResult:
    """The result of a call that is over. Raises `MCPError` for a tool there is not, and a log that cannot be kept."""
    if call.fault is not None:
        raise MCPError(mcp.INTERNAL_ERROR, str(call.fault))
    result = call.result
    if result is None:
        raise MCPError(mcp.INTERNAL_ERROR, "The call ended without a result; look before you repeat it.")
    if result.error is not None and result.error.code == UnknownTool.code:
        raise MCPError(mcp.INVALID_PARAMS, f"Unknown tool: {one_line(call.asked.name, 200)}")
    return result_of(result, tool_session.read, tool_session.localize, any_json=any_json)


def make_input_required(form: Form, token: str) -> mcp.InputRequiredResult:
    """The answer to a request whose call needs one from the user first."""
    params = mcp.ElicitRequestFormParams(message=form.message, requested_schema=form.schema)
    return mcp.InputRequiredResult(
        input_requests={form.id: mcp.ElicitRequest(params=params)}, request_state=token
    )


def answer(call: ClientCall, responses: mcp.InputResponses | None) -> None:
    """Fill in the form a call waits for with what the client's request brings."""
    form = call.form
    if form is None:
        return
    response = (responses or {}).get(form.id)
    form.respond(form_response(response) if isinstance(response, mcp.ElicitResult) else None)


async def elicit(ctx: Context, form: Form) -> FormResponse | None:
    """What the client's user says; None when the client cannot say, or not in time."""
    try:
        with anyio.move_on_after(ANSWER_S):
            return form_response(await ctx.session.elicit_form(form.message, form.schema, ctx.request_id))
    except (MCPError, ValueError):
        return None
    return None


def form_response(result: mcp.ElicitResult) -> FormResponse:
    """An elicitation's result as a filled-in form."""
    return FormResponse(result.action, dict(result.content or {}))


def answerable(ctx: Context) -> bool:
    """Whether the client that makes this request can put a form to its user."""
    capabilities = ctx.session.client_capabilities
    asked = capabilities.elicitation if capabilities is not None else None
    if asked is None or (asked.form is None and asked.url is not None):
        return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request


def client_of(ctx: Context) -> str:
    """The client by its own name and version."""
    params = ctx.session.client_params
    info = params.client_info if params is not None else None
    return one_line(f"{info.name} {info.version}".strip(), 80) if info is not None else "unnamed client"


def key_of(ctx: Context) -> str:
    """Which visit a request belongs to: that of the connection; without one, that of the client's name. With a key of the
    registry's, only with that."""
    request, principal = ctx.request, principal_of(ctx)
    if request is None:
        return "stdio"
    whose = "" if principal is None else f" with {principal.key}"
    session = request.headers.get("mcp-session-id")
    if session is not None and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return f"session {session}{whose}"
    return f"client {client_of(ctx)}{whose}"


def start_of(cursor: str | None) -> int:
    """Where a page begins. Raises `MCPError` for a cursor that is not ours."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 9):
        raise MCPError(mcp.INVALID_PARAMS, "The cursor is none of this server's; begin without one.")
    return int(cursor)


MAX_MEDIA_BYTES = 6_000_000
"""A larger image or sound is named, not sent: the client reads it as a resource."""
MAX_STRUCTURED_BYTES = 100_000


Localize = Callable[[str], str]
ReadBlob = Callable[[str, int, int], bytes]
HINTS: dict[Access, mcp.ToolAnnotations] = {
    "read": mcp.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False),
    "write": mcp.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False),
    "execute": mcp.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
    "network": mcp.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True),
}
"""What a client may expect of each access class; jaato itself decides by its rules, not by hints."""


def tool_of(spec: ToolSpec) -> mcp.Tool:
    """A tool as it is listed, with its whole schema."""
    return mcp.Tool(
        name=spec.name,
        description=spec.description,
        input_schema={"type": "object", **spec.parameters},
        annotations=HINTS[spec.access],
    )


def result_of(
    result: ToolResult, read: ReadBlob, localize: Localize, *, any_json: bool
) -> mcp.CallToolResult:
    """A result as the client reads it, in the words `localize` makes of its texts; `any_json` says that structured content
    need not be an object.

    A failed call is a result that says so: the client's model is to see it.
    """
    if result.error is not None:
        return make_failure(replace(result.error, message=localize(result.error.message)))
    content: list[mcp.ContentBlock] = []
    for part in result.content:
        match part:
            case Text():
                content.append(mcp.TextContent(text=localize(part.text)))
            case Media():
                content.append(media_of(part, read))
    if result.handle is not None:
        content.append(link(result.handle, f"{result.name} result", "all of this result"))
    return mcp.CallToolResult(content=content, structured_content=get_structured(result, any_json=any_json))


def get_structured(result: ToolResult, *, any_json: bool) -> Any:
    """The data of a result where the protocol has room for it."""
    data = result.structured
    if data is None or not (any_json or isinstance(data, dict)):
        return None
    return data if len(encode(data)) <= MAX_STRUCTURED_BYTES else None


def make_failure(problem: Problem) -> mcp.CallToolResult:
    """A failure: its message for the model, its code and details for programs."""
    details: dict[str, Any] = {"code": problem.code, "retryable": problem.retryable}
    if problem.details:
        details["details"] = problem.details
    return mcp.CallToolResult(
        content=[mcp.TextContent(text=problem.message)],
        structured_content={"error": details},
        is_error=True,
    )


def media_of(media: Media, read: ReadBlob) -> mcp.ContentBlock:
    """An image or sound itself; anything else, and what is too large, as a resource to be read."""
    kind = media.mime_type.partition("/")[0]
    if kind in ("image", "audio") and media.size_bytes <= MAX_MEDIA_BYTES:
        data = base64.b64encode(read(media.blob, 0, MAX_MEDIA_BYTES)).decode("ascii")
        if kind == "image":
            return mcp.ImageContent(data=data, mime_type=media.mime_type)
        return mcp.AudioContent(data=data, mime_type=media.mime_type)
    return link(media.blob, media.name or "media", "", media.mime_type, media.size_bytes)


def link(
    handle: str, name: str, description: str, mime_type: str | None = None, size: int | None = None
) -> mcp.ResourceLink:
    """A handle as a resource."""
    return mcp.ResourceLink(
        uri=uri_of(handle), name=name, description=description or None, mime_type=mime_type, size=size
    )


def contents_of(uri: str, data: bytes) -> mcp.TextResourceContents | mcp.BlobResourceContents:
    """Bytes as a resource's contents: text when they are; a character that is cut at the end is left to the next piece."""
    text = decodable_prefix(data)
    if text is not None:
        return mcp.TextResourceContents(uri=uri, mime_type="text/plain", text=text.decode())
    blob = base64.b64encode(data).decode("ascii")
    return mcp.BlobResourceContents(uri=uri, mime_type="application/octet-stream", blob=blob)
