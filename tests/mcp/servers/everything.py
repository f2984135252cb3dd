"""A server made with the SDK that has one of everything; over stdio, or over HTTP on a port it prints."""

from __future__ import annotations

import socket
import sys
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Audio, Context, Image, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100"
    "18dd8db00000000049454e44ae426082"
)
server = MCPServer("everything", title="Everything", version="1.2", instructions="Use it for tests.")


class Table(BaseModel):
    """What a guest wants."""

    people: int = Field(title="People", description="How many come?", ge=1, le=10)
    seat: Literal["inside", "outside"] = "inside"
    vegan: bool = False


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PNG, format="png")


@server.tool()
def sound() -> Audio:
    """A sound."""
    return Audio(data=b"RIFFxxxxWAVE", format="wav")


async def wanted() -> Elicit[Table]:
    """Ask what is wanted."""
    return Elicit("Which table?", Table)


@server.tool()
async def book(day: str, table: Annotated[Table, Resolve(wanted)]) -> str:
    """Book a table."""
    return f"{day}: {table.people} {table.seat} {table.vegan}"


@server.tool()
async def visit(url: str, ctx: Context) -> str:
    """Send the user to a page."""
    return (await ctx.elicit_url("Log in there", url, "e-1")).action


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer one more tool."""
    server.add_tool(
        lambda text: f"grown {text}", name="grown", description="A tool that was not there before."
    )
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def where(ctx: Context) -> str:
    """The process and what the client calls itself."""
    import os

    return f"{os.getpid()} {ctx.protocol_version}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("nothing works today")


@server.resource("memo://today", title="Today", mime_type="text/plain")
def today() -> str:
    """What is to be done."""
    return "water the plants"


@server.resource("memo://bytes", mime_type="application/octet-stream")
def some_bytes() -> bytes:
    """Some bytes."""
    return b"\x00\x01\x02"


@server.resource("memo://notes/{name}")
def note(name: str) -> str:
    """A note."""
    return f"note {name}"


@server.prompt(title="Review")
def review(code: str, style: str = "kind") -> str:
    """Review code."""
    return f"Review this in a {style} way: {code}"


@server.completion()  # type: ignore[no-untyped-call,untyped-decorator]
async def complete(ref: Any, argument: Any, context: Any) -> Any:
    """Styles."""
    from mcp_types import Completion

    return Completion(
        values=[style for style in ("kind", "keen", "harsh") if style.startswith(argument.value)]
    )


def main() -> None:
    """Run it as the first argument says."""
    way = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    if way == "stdio":
        server.run("stdio")
        return
    import uvicorn

    app = server.sse_app() if way == "sse" else server.streamable_http_app(json_response=way == "json")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])


if __name__ == "__main__":
    main()
