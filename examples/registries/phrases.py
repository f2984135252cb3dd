"""An MCP server of one tool, at the standard streams."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("phrases")


@server.tool()
def phrase(text: str, language: str) -> str:
    """Say how travellers put something in the language of the country."""
    known = {"de": {"a ticket, please": "ein Billett, bitte"}}
    return known.get(language, {}).get(text, text)


if __name__ == "__main__":
    server.run("stdio")
