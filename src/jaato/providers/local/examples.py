"""Thirteen short conversations that show the embedded model the form of its turns."""

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
        "list_directory readFile",
        "Look into the folder reports and tell me what the report of May says.",
        '{"tool": "list_directory", "args": {"path": "reports"}}',
        "Result of list_directory:\nmay.txt\njune.txt",
        '{"tool": "readFile", "args": {"path": "reports/may.txt"}}',
        "Result of readFile:\n1: Sales rose.",
        '{"answer": "The report of May says: Sales rose."}',
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
        "run",
        "Does the code in lib pass the linter?",
        '{"tool": "run", "args": {"command": "ruff check lib"}}',
        "Result of run:\nexit code 1\nFound 3 errors.",
        '{"answer": "No, the linter found 3 errors in lib."}',
    ),
    example(
        "readFile",
        "Show me lines 5 and 6 of NOTES.md.",
        '{"tool": "readFile", "args": {"path": "NOTES.md", "offset": 5, "limit": 2}}',
        "Result of readFile:\n5: # Tides\n6: Predicts tides.",
        '{"answer": "# Tides\\nPredicts tides."}',
    ),
    example(
        "updateFile",
        "In app.cfg, set verbose = yes instead of verbose = no.",
        '{"tool": "updateFile", "args": {"path": "app.cfg", "old": "verbose = no", "new": "verbose = yes"}}',
        "Result of updateFile:\nupdated app.cfg",
        '{"answer": "app.cfg now has verbose = yes."}',
    ),
    example(
        "readFile",
        "Which colour does theme.cfg set? If it is missing, look in default.cfg.",
        '{"tool": "readFile", "args": {"path": "theme.cfg"}}',
        "Error from readFile: theme.cfg does not exist.",
        '{"tool": "readFile", "args": {"path": "default.cfg"}}',
        "Result of readFile:\n1: colour = blue",
        '{"answer": "default.cfg sets the colour blue; there is no theme.cfg."}',
    ),
    example(
        "list_tools",
        "What is the headline on news.example today?",
        '{"tool": "list_tools", "args": {"query": "read a web page"}}',
        "Result of list_tools:\nThere is no such tool.",
        '{"answer": "I cannot tell: there is no tool that reads web pages."}',
    ),
    example("", "What does HTTP stand for?", '{"answer": "HTTP stands for Hypertext Transfer Protocol."}'),
    example(
        "readFile updateFile",
        "Read server.ini and set its port to 8050.",
        '{"tool": "readFile", "args": {"path": "server.ini"}}',
        "Result of readFile:\n1: [server]\n2: port = 8043",
        '{"tool": "updateFile", "args": {"path": "server.ini", "old": "port = 8043", "new": "port = 8050"}}',
        "Result of updateFile:\nupdated server.ini",
        '{"answer": "The port in server.ini is now 8050."}',
    ),
    example(
        "list_tools get_tool_schemas",
        "Text Bob that his parcel is here.",
        '{"tool": "list_tools", "args": {"query": "send a text message"}}',
        "Result of list_tools:\n- sms_send: Send a text message.\n- sms_list: Show text messages.",
        '{"tool": "get_tool_schemas", "args": {"names": ["sms_send"]}}',
        "You can now use:\n- sms_send(to: string, text: string): Send a text message.",
        '{"tool": "sms_send", "args": {"to": "Bob", "text": "Your parcel is here."}}',
        "Result of sms_send:\nsent",
        '{"answer": "I sent Bob the text: Your parcel is here."}',
    ),
    example(
        "run writeNewFile",
        "Put the name I am logged in with into user.txt.",
        '{"tool": "run", "args": {"command": "whoami"}}',
        "Result of run:\nexit code 0\nmara",
        '{"tool": "writeNewFile", "args": {"path": "user.txt", "content": "mara"}}',
        "Result of writeNewFile:\ncreated user.txt",
        '{"answer": "user.txt now has the name mara."}',
    ),
    example(
        "grep_content writeNewFile",
        "Where is the tide gauge mentioned? Note the place in place.txt.",
        '{"tool": "grep_content", "args": {"pattern": "tide gauge"}}',
        "Result of grep_content:\nsea.md:7: the tide gauge at the pier",
        '{"tool": "writeNewFile", "args": {"path": "place.txt", "content": "sea.md:7"}}',
        "Result of writeNewFile:\ncreated place.txt",
        '{"answer": "sea.md:7 mentions the tide gauge: the tide gauge at the pier. I wrote sea.md:7 into place.txt."}',
    ),
    example("", "Who wrote Hamlet?", '{"answer": "William Shakespeare wrote Hamlet."}'),
)
