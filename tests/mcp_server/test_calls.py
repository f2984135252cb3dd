"""What a client gets at the door: tools, discovery, results, resources; in both eras of the protocol."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import mcp_types as mcp
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from tests.mcp_server.serving import ERAS, House, names, text_of

from jaato.protocol.events import SessionCreated, ToolCallEnd, ToolCallStart
from jaato.protocol.messages import Media
from jaato.server.mcp.sessions import MAX_CALLS
from jaato.server.tool_sessions import Offer
from jaato.tools.call import Call, Output

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.spec("S0", "Introspection Mechanism")
def test_a_client_finds_and_activates_tools_as_a_model_does(house: House, mode: str) -> None:
    """A tool that is not listed does not run until get_tool_schemas has brought it into the list, with a notice."""
    changes: list[str] = []

    async def heard(message: Any) -> None:
        if isinstance(message, mcp.ToolListChangedNotification):
            changes.append(message.method)

    async def main() -> None:
        async with house.visited(mode, client={"message_handler": heard}) as client:
            before = names((await client.list_tools()).tools)
            assert {"list_tools", "get_tool_schemas", "readFile"} <= set(before)
            assert "glob_files" not in before
            refused = await client.call_tool("glob_files", {"pattern": "*"})
            assert refused.is_error
            assert "get_tool_schemas" in text_of(refused)
            found = await client.call_tool("list_tools", {"query": "find files by a pattern"})
            assert "glob_files" in text_of(found)
            await client.call_tool("get_tool_schemas", {"names": ["glob_files"]})
            assert names((await client.list_tools()).tools) == [*before, "glob_files"]
            assert not (await client.call_tool("glob_files", {"pattern": "*"})).is_error
            assert changes == (["notifications/tools/list_changed"] if mode == "legacy" else [])

    anyio.run(main)


def test_a_client_of_the_newer_protocol_hears_of_new_tools_on_its_subscription(house: House) -> None:
    """Who listens for changes of the list is told of an activation."""

    async def main() -> None:
        async with house.visited("auto") as client, client.listen(tools_list_changed=True) as events:
            await client.call_tool("get_tool_schemas", {"names": ["glob_files"]})
            async for event in events:
                assert type(event).__name__ == "ToolsListChanged"
                return

    anyio.run(main)


@pytest.mark.parametrize("mode", ERAS)
def test_every_tool_is_listed_on_request(house: House, mode: str) -> None:
    """`--all-tools` lists the catalogue; `--tools` those named and lets no other run."""

    async def main() -> None:
        async with house.visited(mode, offer=Offer(whole=True)) as client:
            listed = names((await client.list_tools()).tools)
            assert len(listed) > 60
            assert not (await client.call_tool("glob_files", {"pattern": "*"})).is_error
        async with house.visited(mode, offer=Offer(tools=("readFile", "glob_files"))) as client:
            assert names((await client.list_tools()).tools) == ["readFile", "glob_files"]
            assert (await client.call_tool("list_directory", {"path": "."})).is_error

    anyio.run(main)


@pytest.mark.parametrize("mode", ERAS)
def test_a_call_is_in_the_log_of_the_clients_session(house: House, mode: str) -> None:
    """The session is named after the client; the start of a call is durable before its result."""
    (house.work / "a.txt").write_text("hello\n")

    async def main() -> None:
        async with house.visited(mode) as client:
            result = await client.call_tool("readFile", {"path": "a.txt"})
            assert "hello" in text_of(result)

    anyio.run(main)
    events = house.events()
    assert [event.name for event in events if isinstance(event, SessionCreated)] == ["MCP: tester 1"]
    (started,) = [event for event in events if isinstance(event, ToolCallStart)]
    (ended,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert started.tool == "readFile"
    assert started.arguments == {"path": "a.txt"}
    assert started.permission is not None
    assert ended.result.ok
    assert started.seq < ended.seq


def test_a_client_that_only_looks_leaves_no_session(house: House) -> None:
    """Listing tools and resources begins no session."""

    async def main() -> None:
        tool_sessions = house.tool_sessions()
        try:
            assert tool_sessions.first()
            assert tool_sessions.get("stdio") is None
        finally:
            await tool_sessions.close()
        async with house.visited("legacy") as client:
            await client.list_tools()
            assert (await client.list_resources()).resources == []

    anyio.run(main)
    with pytest.raises(ValueError, match="not enough values"):
        house.events()


@pytest.mark.parametrize("mode", ERAS)
def test_what_a_client_does_wrong_it_is_told(house: House, mode: str) -> None:
    """Invalid arguments are a failed call with every problem; an unknown tool and a foreign cursor are errors."""

    async def main() -> None:
        async with house.visited(mode) as client:
            wrong = await client.call_tool("readFile", {"path": 5, "size": 1})
            assert wrong.is_error
            assert wrong.structured_content["error"]["code"] == "arguments_invalid"
            assert len(wrong.structured_content["error"]["details"]["issues"]) == 2
            with pytest.raises(MCPError, match="Unknown tool: no_such") as unknown:
                await client.call_tool("no_such", {})
            assert unknown.value.code == mcp.INVALID_PARAMS
            for cursor in ("-1", "x", "9" * 30):
                with pytest.raises(MCPError, match="cursor"):
                    await client.list_tools(cursor=cursor)
            assert (await client.list_tools(cursor="99999")).tools == []

    anyio.run(main)


@pytest.mark.parametrize("mode", ERAS)
def test_results_keep_their_kinds(house: House, mode: str) -> None:
    """Objects are structured content, images are images, other media are resources, hints follow the access class."""

    def data() -> dict[str, int]:
        """Data."""
        return {"a": 1}

    def rows() -> list[int]:
        """A list."""
        return [1, 2]

    def seen(call: Call) -> Output:
        """An image and a document."""
        images = [call.keep(data).removeprefix("result:") for data in (PIXEL, b"%PDF")]
        return Output(
            "both", None, (Media("image/png", images[0], len(PIXEL)), Media("application/pdf", images[1], 4))
        )

    async def main() -> None:
        async with house.visited(mode, data, rows, seen) as client:
            assert (await client.call_tool("data", {})).structured_content == {"a": 1}
            listed = await client.call_tool("rows", {})
            assert text_of(listed) == "[1,2]"
            assert listed.structured_content == ([1, 2] if mode == "auto" else None)
            _, image, document = (await client.call_tool("seen", {})).content
            assert isinstance(image, mcp.ImageContent)
            assert base64.b64decode(image.data) == PIXEL
            assert isinstance(document, mcp.ResourceLink)
            read = (await client.read_resource(document.uri)).contents[0]
            assert isinstance(read, mcp.TextResourceContents)
            assert read.text == "%PDF"
            hints = {one.name: one.annotations for one in (await client.list_tools()).tools}
            assert hints["readFile"] is not None
            assert hints["readFile"].read_only_hint
            assert hints["run"] is not None
            assert hints["run"].destructive_hint

    anyio.run(main)


@pytest.mark.parametrize("mode", ERAS)
def test_a_long_result_is_cut_and_read_as_a_resource(house: House, mode: str) -> None:
    """What is left out of a long text is behind a link that this client, and no other, reads piece by piece."""
    text = "".join(f"lïne {number}€\n" for number in range(200_000))

    def long() -> str:
        """A long text."""
        return text

    async def main() -> None:
        async with house.visited(mode, long) as client:
            result = await client.call_tool("long", {})
            assert len(text_of(result)) < 40_000
            (link,) = [part for part in result.content if isinstance(part, mcp.ResourceLink)]
            read, offset = "", 0
            while True:
                (piece,) = (await client.read_resource(f"{link.uri}?offset={offset}")).contents
                assert isinstance(piece, mcp.TextResourceContents)
                if not piece.text:
                    break
                read, offset = read + piece.text, offset + len(piece.text.encode())
            assert read == text
            assert [one.uri for one in (await client.list_resources()).resources] == [link.uri]
            assert (await client.list_resource_templates()).resource_templates
            for uri in (
                f"jaato://results/{'0' * 64}",
                "jaato://results/../../etc/passwd",
                "file:///etc/passwd",
            ):
                with pytest.raises(MCPError, match="no resource"):
                    await client.read_resource(uri)

    anyio.run(main)


def test_a_tool_that_is_not_there_cannot_be_offered(house: House) -> None:
    """A wrong name in `--tools` is said at the start, with those like it."""
    with pytest.raises(Exception, match="There is no tool 'readFil' to offer; like it: readFile"):
        house.tool_sessions(offer=Offer(tools=("readFil",)))


@pytest.mark.parametrize("mode", ERAS)
def test_too_many_calls_at_once_are_refused_not_queued_for_ever(house: House, mode: str) -> None:
    """Of two hundred calls at once some run and the others are told to wait; afterwards everything is as before."""
    gate = anyio.Event()

    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "done"

    async def main() -> None:
        said: list[str] = []

        async def one(client: Client) -> None:
            said.append(text_of(await client.call_tool("wait", {})))
            if len(said) == 200 - MAX_CALLS:
                gate.set()

        async with house.visited(mode, wait) as client:
            async with anyio.create_task_group() as group:
                for _number in range(200):
                    group.start_soon(one, client)
            assert said.count("done") == MAX_CALLS
            assert {text for text in said if text != "done"} == {
                f"{MAX_CALLS} calls of this client are under way; wait for one of them to end."
            }
            assert text_of(await client.call_tool("wait", {})) == "done"

    anyio.run(main)
