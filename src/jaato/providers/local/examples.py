"""Short conversations that show the embedded model the form of its turns."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Example(NamedTuple):
    """Turns of user and assistant, in turn, and the declared tools they need."""

    uses: frozenset[str]
    turns: tuple[str, ...]


def example(uses: str, *turns: str) -> Example:
    """An example that needs the tools named in `uses`."""
    return Example(frozenset(uses.split()), turns)


def call(tool: str, /, **arguments: Any) -> str:
    """A turn that calls a tool."""
    return json.dumps({"tool": tool, "args": arguments}, ensure_ascii=False)


def answer(text: str) -> str:
    """A turn that ends the task."""
    return json.dumps({"answer": text}, ensure_ascii=False)


EXAMPLES = (
    example(
        "list_directory readFile",
        "Look into the folder reports and tell me what the report of May says.",
        call("list_directory", path="reports"),
        "Result of list_directory:\nmay.txt\njune.txt",
        call("readFile", path="reports/may.txt"),
        "Result of readFile:\n1: Sales rose.",
        answer("The report of May says: Sales rose."),
    ),
    example(
        "createPlan",
        "Plan the move: pack the boxes, order a van, hand over the keys.",
        call("createPlan", title="Move", steps=["Pack the boxes", "Order a van", "Hand over the keys"]),
        "Result of createPlan:\nplan created with 3 steps",
        answer("The plan Move has three steps: pack the boxes, order a van, hand over the keys."),
    ),
    example(
        "run",
        "Does the code in lib pass the linter?",
        call("run", command="ruff check lib"),
        "Result of run:\nexit code 1\nFound 3 errors.",
        answer("No, the linter found 3 errors in lib."),
    ),
    example(
        "readFile",
        "Show me lines 5 and 6 of NOTES.md.",
        call("readFile", path="NOTES.md", offset=5, limit=2),
        "Result of readFile:\n5: # Tides\n6: Predicts tides.",
        answer("# Tides\nPredicts tides."),
    ),
    example(
        "updateFile",
        "In app.cfg, set verbose = yes instead of verbose = no.",
        call("updateFile", path="app.cfg", old="verbose = no", new="verbose = yes"),
        "Result of updateFile:\nupdated app.cfg",
        answer("app.cfg now has verbose = yes."),
    ),
    example(
        "readFile",
        "Which colour does theme.cfg set? If it is missing, look in default.cfg.",
        call("readFile", path="theme.cfg"),
        "Error from readFile: theme.cfg does not exist.",
        call("readFile", path="default.cfg"),
        "Result of readFile:\n1: colour = blue",
        answer("default.cfg sets the colour blue; there is no theme.cfg."),
    ),
    example(
        "writeNewFile",
        "Make a file greeting.txt that says Good morning.",
        call("writeNewFile", path="greeting.txt", content="Good morning."),
    ),
    example("", "What does HTTP stand for?", answer("HTTP stands for Hypertext Transfer Protocol.")),
    example("readFile", "Explain server.ini.", call("readFile", path="server.ini")),
    example(
        "readFile updateFile",
        "Read server.ini and set its port to 8050.",
        call("readFile", path="server.ini"),
        "Result of readFile:\n1: [server]\n2: port = 8043",
        call("updateFile", path="server.ini", old="port = 8043", new="port = 8050"),
        "Result of updateFile:\nupdated server.ini",
        answer("The port in server.ini is now 8050."),
    ),
    example(
        "updateFile",
        "The word 'adress' in form.html is misspelled, write 'address'.",
        call("updateFile", path="form.html", old="adress", new="address"),
    ),
    example(
        "run writeNewFile",
        "Write the size of the folder data into size.txt.",
        call("run", command="du -sh data"),
        "Result of run:\nexit code 0\n48M\tdata",
        call("writeNewFile", path="size.txt", content="48M"),
        "Result of writeNewFile:\ncreated size.txt",
        answer("The folder data has 48M; I wrote 48M into size.txt."),
    ),
    example(
        "grep_content writeNewFile",
        "Where is the tide gauge mentioned? Note the place in place.txt.",
        call("grep_content", pattern="tide gauge"),
        "Result of grep_content:\nsea.md:7: the tide gauge at the pier",
        call("writeNewFile", path="place.txt", content="sea.md:7"),
        "Result of writeNewFile:\ncreated place.txt",
        answer(
            "sea.md:7 mentions the tide gauge: the tide gauge at the pier. I wrote sea.md:7 into place.txt."
        ),
    ),
    example(
        "list_tools",
        "What is the headline on news.example today?",
        call("list_tools", query="read a web page"),
        "Result of list_tools:\nThere is no such tool.",
        answer("I cannot tell: there is no tool that reads web pages."),
    ),
    example(
        "list_tools get_tool_schemas",
        "Text Bob that his parcel is here.",
        call("list_tools", query="send a text message"),
        "Result of list_tools:\n- sms_send: Send a text message.\n- sms_list: Show text messages.",
        call("get_tool_schemas", names=["sms_send"]),
        "You can now use:\n- sms_send(to: string, text: string): Send a text message.",
        call("sms_send", to="Bob", text="Your parcel is here."),
        "Result of sms_send:\nsent",
        answer("I sent Bob the text: Your parcel is here."),
    ),
    example("list_tools", "Turn off the lamp in the hall.", call("list_tools", query="switch a lamp")),
    example("list_tools", "Duplicate photo.png as spare.png.", call("list_tools", query="copy a file")),
    example("", "Who wrote Hamlet?", answer("William Shakespeare wrote Hamlet.")),
)
