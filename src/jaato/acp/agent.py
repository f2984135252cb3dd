"""The agent that an editor speaks with: the methods of the protocol, over a client of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION
from acp.schema import Implementation, McpCapabilities, PromptCapabilities, SessionCapabilities
from msgspec.structs import replace

from acp import schema
from jaato.acp.capabilities import Capabilities, capabilities_of
from jaato.acp.errors import AUTH_REQUIRED, LOGIN, invalid_params, map_errors, request_error
from jaato.acp.files import answer_file
from jaato.acp.opening import Server, check_stored, open_session, read_cwd, server_entries
from jaato.acp.prompts import Block, read_prompt
from jaato.acp.session import Connection, EditorSession
from jaato.acp.streams import EditorStreams
from jaato.acp.updates import MODES, config_options, mode_state
from jaato.cli.exit_codes import print_message
from jaato.cli.output.console import one_line
from jaato.client.connection import Client, word
from jaato.errors import JaatoError, SessionBusy, SessionNotFound
from jaato.lazy_pattern import lazy_pattern
from jaato.protocol.commands import (
    FileResponse,
    SessionCreate,
    SessionDelete,
    SessionDetach,
    SessionList,
    SessionUpdate,
)
from jaato.protocol.frames import FileRequest, Sessions
from jaato.protocol.ids import is_id
from jaato.runtime.provider_selection import usable_providers
from jaato.settings import load
from jaato.tools.call import replace_surrogates
from jaato.version import __version__

LOGIN_METHOD = "jaato-login"
AGENT_LOGIN = schema.AuthMethodAgent(id=LOGIN_METHOD, name="jaato login", description=LOGIN)
TERMINAL_LOGIN = schema.TerminalAuthMethod(
    type="terminal",
    id=f"{LOGIN_METHOD}-terminal",
    name="Save an API key",
    description="Asks for a provider and its key, in a terminal.",
    args=["--login"],
)
DETACH_TIMEOUT_S = 5.0
BEING_OPENED = "This session is being opened; wait for the response."
CURSOR = lazy_pattern(r"\d{4}-\S+ s[0-9A-Za-z]+")
Options = dict[str, Any]


class EditorAgent:
    """Answers the requests of one editor. `creation` has the options of the command line for its sessions."""

    def __init__(self, client: Client, streams: EditorStreams, creation: SessionCreate) -> None:
        self._client = client
        self._streams = streams
        self._creation = creation
        self._editor: Connection
        self._sessions: dict[str, EditorSession] = {}
        self._capabilities = Capabilities()
        self.failure: JaatoError | None = None
        """Why the program ends, if not because the editor has ended it."""
        self._opened_now: set[str] = set()
        """The stored sessions that are being opened."""
        streams.on_session = self._start_session
        client.on_connection = self._connection_changed

    def on_connect(self, editor: Connection) -> None:
        """The library's connection to the editor."""
        self._editor = editor

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_: Any,
    ) -> schema.InitializeResponse:
        """Agree on the version, and say what is supported."""
        self._capabilities = capabilities_of(client_capabilities, client_info, self._client)
        if client_info is not None:
            print_message(
                f"connected to {one_line(client_info.name, 80)} {one_line(client_info.version, 80)}"
            )
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="jaato", title="jaato", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                session_capabilities=SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    delete=schema.SessionDeleteCapabilities(),
                ),
            ),
            auth_methods=[TERMINAL_LOGIN, AGENT_LOGIN] if self._capabilities.runs_login else [AGENT_LOGIN],
        )

    @map_errors
    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Check that a provider is set up, which happens outside of the editor."""
        if method_id != LOGIN_METHOD:
            raise invalid_params(f"The only authentication method of a request is {LOGIN_METHOD}.")
        if not self._creation.provider and not await usable_providers(load()):
            error = request_error(JaatoError(f"No provider is set up. {LOGIN}"))
            error.code = AUTH_REQUIRED
            raise error
        return schema.AuthenticateResponse()

    # --- sessions ----------------------------------------------------------------------------------------------------

    @map_errors
    async def new_session(
        self, cwd: str, mcp_servers: list[Server] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Create a session in a directory. Its updates begin once the editor has its id."""
        creation = self._creation_in(cwd, mcp_servers)
        opened, notice = await open_session(self._client, creation)
        session = await self._watch(opened.session_id, creation, notice, is_owner=True)
        return schema.NewSessionResponse(session_id=session.session.id, **self._state_of(session))

    @map_errors
    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Server] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Open a stored session and send its conversation."""
        async with self._opening(session_id):
            session = await self._open(session_id, cwd, mcp_servers)
            await session.replay()
            session.start()
            return schema.LoadSessionResponse(**self._state_of(session))

    @map_errors
    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: list[Server] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Open a stored session without its conversation."""
        async with self._opening(session_id):
            session = await self._open(session_id, cwd, mcp_servers)
            session.start()
            return schema.ResumeSessionResponse(**self._state_of(session))

    @map_errors
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """The stored sessions of a directory, or of all, newest first."""
        if cursor is not None and not CURSOR.fullmatch(cursor):
            raise invalid_params("The cursor is none of a list; take it from nextCursor of the page before.")
        workspace = None if cwd is None else read_cwd(cwd)
        found = await self._client.ask(SessionList(workspace=workspace, cursor=cursor))
        assert isinstance(found, Sessions)
        rows = [
            schema.SessionInfo(
                session_id=row.id,
                cwd=row.workspace,
                title=one_line(row.name or row.description or row.id, 200),
                updated_at=row.updated_at,
            )
            for row in found.sessions
        ]
        return schema.ListSessionsResponse(sessions=rows, next_cursor=found.cursor)

    @map_errors
    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Leave a session; it is kept."""
        session = self._sessions.pop(self._find(session_id).session.id)
        with suppress(SessionNotFound):  # another client has deleted it
            await session.settle()
        left = await session.leave(withdraw=True)
        for prompt in left[0]:
            prompt.end("cancelled")
        return schema.CloseSessionResponse()

    async def ext_method(self, name: str, params: Options) -> schema.DeleteSessionResponse:
        """Answer a request for which the library has no route: `session/delete`."""
        if name != "session/delete":
            raise RequestError.method_not_found(f"_{name}")
        await self.delete_session(schema.DeleteSessionRequest.model_validate(params).session_id)
        return schema.DeleteSessionResponse()

    @map_errors
    async def delete_session(self, session_id: str) -> None:
        """Delete a session for good, which is closed first; without an error if there is none of this id."""
        if session_id in self._opened_now:
            raise invalid_params(BEING_OPENED)
        if session_id in self._sessions:
            await self.close_session(session_id)
        if is_id(session_id, "s"):  # the server would take a name, or the beginning of an id, for another's
            with suppress(SessionNotFound):
                await self._client.ask(SessionDelete(session_id=session_id))

    # --- in a session --------------------------------------------------------------------------------------------------

    @map_errors
    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> schema.PromptResponse:
        """Send a message and wait for the end of its turn."""
        text, files = read_prompt(prompt)
        return await self._find(session_id).prompt(text, files)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the turn of a session."""
        if (session := self._sessions.get(session_id)) is not None:
            try:
                await session.cancel()
            except JaatoError as error:
                print_message(str(error))

    @map_errors
    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        """Change the permission mode."""
        await self._set_mode(self._find(session_id), mode_id)
        return schema.SetSessionModeResponse()

    async def _set_mode(self, session: EditorSession, mode: str) -> None:
        if mode not in MODES:
            raise invalid_params(f"There is no mode {one_line(mode, 60)}; there are {', '.join(MODES)}.")
        await session.session.execute("mode", mode)

    @map_errors
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Change the mode or the model."""
        session = self._find(session_id)
        match config_id, value:
            case "mode", str():
                await self._set_mode(session, value)
                options = config_options(session.session, mode=value)
            case "model", str() if value:
                state, model = session.session.state, replace_surrogates(value)
                change = SessionUpdate(session_id=state.session_id, provider=state.provider, model=model)
                await self._client.ask(change)
                options = config_options(session.session, model=model)
            case _:
                raise invalid_params("The options are mode and model, each with one of its values.")
        return schema.SetSessionConfigOptionResponse(config_options=list(options))

    # --- how sessions are opened -----------------------------------------------------------------------------------------

    def _find(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None and session_id in self._opened_now:
            raise invalid_params(BEING_OPENED)
        if session is None:
            raise invalid_params(
                f"The session {one_line(session_id, 60)} is not open here: session/load opens a stored one."
            )
        return session

    def _creation_in(self, cwd: str, servers: list[Server] | None) -> SessionCreate:
        """The command that opens a session for this editor. Raises `RequestError`."""
        workspace = read_cwd(cwd)
        once = "" if self._client.in_process else word()
        return replace(
            self._creation,
            workspace=workspace,
            mcp_servers=server_entries(servers or []),
            serves_files=self._capabilities.serves_files,
            once=once,
        )

    @asynccontextmanager
    async def _opening(self, session_id: str) -> AsyncIterator[None]:
        """While a stored session is opened. Raises `RequestError` while it is being opened already."""
        if session_id in self._opened_now:
            raise invalid_params(BEING_OPENED)
        self._opened_now.add(session_id)
        try:
            yield
        finally:
            self._opened_now.discard(session_id)

    async def _open(self, session_id: str, cwd: str, servers: list[Server] | None) -> EditorSession:
        """Open a stored session, with the options of this editor unless another client has it open."""
        creation = replace(self._creation_in(cwd, servers), session_id=replace_surrogates(session_id))
        known = self._sessions.get(session_id)
        if known is None:
            return await self._attach(creation)
        check_stored(known.session, creation)
        del self._sessions[session_id]
        prompts, seq = await known.leave(withdraw=True)
        try:
            session = await self._attach(creation)
        except JaatoError as error:
            for prompt in prompts:
                prompt.fail(request_error(error))
            raise
        await session.adopt(prompts, seq)
        return session

    async def _attach(self, creation: SessionCreate) -> EditorSession:
        watched = await self._client.attach(creation.session_id)
        assert watched.info is not None
        try:
            check_stored(watched, creation)
        except RequestError:
            if watched.id not in self._sessions:
                watched.watched = False
                self._client.sessions.pop(watched.id, None)
                await self._client.ask(SessionDetach(session_id=watched.id))
            raise
        is_owner, notice = len(watched.info.clients) <= 1, ""
        if is_owner:
            try:
                _, notice = await open_session(self._client, creation)
            except SessionBusy:
                is_owner = False  # it is taken over with a later prompt
        return await self._watch(watched.id, creation, notice, is_owner=is_owner)

    async def _watch(
        self, session_id: str, creation: SessionCreate, notice: str, *, is_owner: bool
    ) -> EditorSession:
        watched = await self._client.attach(session_id, self._capabilities.serves_files, self._answer_file)
        session = EditorSession(
            self._client,
            watched,
            self._editor,
            creation,
            self._capabilities,
            notice=notice,
            is_owner=is_owner,
            withdraw=self._streams.withdraw,
            on_lost=self._fail,
        )
        self._sessions[watched.id] = session
        return session

    async def _answer_file(self, request: FileRequest) -> FileResponse:
        """Answer a request for a file of a session that the editor has open."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return FileResponse(
                session_id=request.session_id, request_id=request.id, problem="the session is not open"
            )
        return await answer_file(self._editor, request, session.workspace, self._streams.withdraw)

    def _state_of(self, session: EditorSession) -> Options:
        """The modes and models of a session, for the reply that opens it."""
        session.updates.know_options()
        return {
            "modes": mode_state(session.session),
            "config_options": list(config_options(session.session)),
        }

    def _start_session(self, session_id: str) -> None:
        if (session := self._sessions.get(session_id)) is not None:
            session.start()

    # --- the connection ----------------------------------------------------------------------------------------------

    def _connection_changed(self, connected: bool) -> None:
        print_message("reconnected" if connected else "lost the connection to the server; reconnecting")
        if not connected:
            for session in self._sessions.values():
                session.disconnect()

    def _fail(self, error: JaatoError) -> None:
        """End the program: a session gets no events any more."""
        self.failure = self.failure or error
        self._streams.stop()

    async def close(self) -> None:
        """Leave every session."""
        try:
            async with asyncio.timeout(DETACH_TIMEOUT_S):
                for session in list(self._sessions.values()):
                    await session.leave(withdraw=False)
        except (JaatoError, TimeoutError):
            pass  # without a connection the server detaches this client by itself
