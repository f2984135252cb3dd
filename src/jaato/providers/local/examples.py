"""Ten short conversations that show the embedded model the form of its turns."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """Turns of user and assistant, in turn, and the declared tools they need."""

    uses: frozenset[str]
    turns: tuple[str, ...]


def example(uses: str, *turns: str) -> Example:
    """An example that needs the tools named in `uses`."""
    return Example(frozenset(uses.split()), turns)


EXAMPLES = (
    example(
        "list_directory",
        "What is in the folder reports?",
        '{"tool": "list_directory", "args": {"path": "reports"}}',
        "Result of list_directory:\nmay.csv\njune.csv",
        '{"answer": "The folder reports has two files: may.csv and june.csv."}',
    ),
    example(
        "createPlan",
        "Plan the move: pack the boxes, order a van, hand over the keys.",
        '{"tool": "createPlan", "args": {"title": "Move", "steps": ["Pack the boxes", "Order a van", '
        '"Hand over the keys"]}}',
        "Result of createPlan:\nplan created with 3 steps",
        '{"answer": "The plan Move has three steps: pack the boxes, order a van, hand over the keys."}',
    ),
    example(
        "readFile",
        "Explain server.ini in a few words.",
        '{"tool": "readFile", "args": {"path": "server.ini"}}',
        "Result of readFile:\n1: [server]\n2: port = 8043",
        '{"answer": "server.ini sets the port of the server to 8043."}',
    ),
    example(
        "list_tools get_tool_schemas",
        "Tell the channel builds that the nightly build is green.",
        '{"tool": "list_tools", "args": {"query": "post a message to a chat channel"}}',
        'Result of list_tools:\n{"results":[{"query":"post a message to a chat channel","tools":[{"name":'
        '"chat_post","description":"Post to a channel."}]}]}',
        '{"tool": "get_tool_schemas", "args": {"names": ["chat_post"]}}',
        "You can now use:\n- chat_post(channel: string, text: string): Post to a channel.",
        '{"tool": "chat_post", "args": {"channel": "builds", "text": "The nightly build is green."}}',
        "Result of chat_post:\nposted",
        '{"answer": "I told the channel builds that the nightly build is green."}',
    ),
    example(
        "writeNewFile",
        "Make a file greeting.txt that says Good morning.",
        '{"tool": "writeNewFile", "args": {"path": "greeting.txt", "content": "Good morning.\\n"}}',
        "Result of writeNewFile:\ncreated greeting.txt",
        '{"answer": "I created greeting.txt with the text Good morning."}',
    ),
    example(
        "run",
        "Does the code in lib pass the linter?",
        '{"tool": "run", "args": {"command": "ruff check lib"}}',
        "Result of run:\nexit code 1\nFound 3 errors.",
        '{"answer": "No, the linter found 3 errors in lib."}',
    ),
    example("", "What does HTTP stand for?", '{"answer": "HTTP stands for Hypertext Transfer Protocol."}'),
    example(
        "updateFile",
        "In app.cfg, set verbose = yes instead of verbose = no.",
        '{"tool": "updateFile", "args": {"path": "app.cfg", "old": "verbose = no", "new": "verbose = yes"}}',
        "Result of updateFile:\nupdated app.cfg",
        '{"answer": "app.cfg now has verbose = yes."}',
    ),
    example(
        "readFile list_directory",
        "Show me lines 5 and 6 of the readme.",
        '{"tool": "readFile", "args": {"path": "readme.txt", "offset": 5, "limit": 2}}',
        "Error from readFile: readme.txt does not exist.",
        '{"tool": "list_directory", "args": {"path": "."}}',
        "Result of list_directory:\nREADME.md\nsea.md",
        '{"tool": "readFile", "args": {"path": "README.md", "offset": 5, "limit": 2}}',
        "Result of readFile:\n5: # Tides\n6: Predicts tides.",
        '{"answer": "Lines 5 and 6 of README.md are: # Tides / Predicts tides."}',
    ),
    example(
        "grep_content writeNewFile",
        "Where is the tide gauge mentioned? Note the place in place.txt.",
        '{"tool": "grep_content", "args": {"pattern": "tide gauge"}}',
        "Result of grep_content:\nsea.md:7: the tide gauge at the pier",
        '{"tool": "writeNewFile", "args": {"path": "place.txt", "content": "sea.md:7\\n"}}',
        "Result of writeNewFile:\ncreated place.txt",
        '{"answer": "The tide gauge is mentioned in sea.md, line 7; place.txt says so."}',
    ),
)
