"""Few-shot conversations that show the embedded model the form of its turns."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Example(NamedTuple):
    """Turns of user and assistant, in turn, the declared tools they need and the one that must not be declared."""

    uses: frozenset[str]
    turns: tuple[str, ...]
    without: str = ""


def example(uses: str, *turns: str, without: str = "") -> Example:
    """An example that needs the tools named in `uses`, and in which the tool `without` is none of them."""
    return Example(frozenset(uses.split()), turns, without)


def call(step: str, tool: str, /, **arguments: Any) -> str:
    """A turn that calls a tool."""
    return json.dumps({"step": step, "tool": tool, "args": arguments}, ensure_ascii=False)


def answer(text: str) -> str:
    """A turn that ends the task."""
    return json.dumps({"answer": text}, ensure_ascii=False)


EXAMPLES = (
    example(
        "list_directory readFile",
        "Look into the folder reports and show me the report of May.",
        call("list the folder reports", "list_directory", path="reports"),
        "Result of list_directory:\nmay.txt\njune.txt",
        call("read reports/may.txt", "readFile", path="reports/may.txt"),
        "Result of readFile:\n1: Sales rose.",
        answer("The report of May: Sales rose."),
    ),
    example(
        "createPlan",
        "Plan the move: pack the boxes, order a van, hand over the keys.",
        call(
            "write down the plan",
            "createPlan",
            title="Move",
            steps=["Pack the boxes", "Order a van", "Hand over the keys"],
        ),
        "Result of createPlan:\nplan created with 3 steps",
        answer("The plan Move has three steps: pack the boxes, order a van, hand over the keys."),
    ),
    example(
        "run",
        "Does the code in lib pass the linter?",
        call("run the linter on lib", "run", command="ruff check lib"),
        "Result of run:\nexit code 1\nFound 3 errors.",
        answer("No, the linter found 3 errors in lib."),
    ),
    example(
        "readFile",
        "Show me lines 5 and 6 of NOTES.md.",
        call("read lines 5 and 6 of NOTES.md", "readFile", path="NOTES.md", offset=5, limit=2),
        "Result of readFile:\n5: # Tides\n6: Predicts tides.",
        answer("# Tides\nPredicts tides."),
    ),
    example(
        "updateFile",
        "In app.cfg, set verbose = yes instead of verbose = no.",
        call(
            "change no to yes in app.cfg",
            "updateFile",
            path="app.cfg",
            old="verbose = no",
            new="verbose = yes",
        ),
        "Result of updateFile:\nupdated app.cfg",
        answer("I changed app.cfg: verbose = yes."),
    ),
    example(
        "readFile",
        "Which colour does theme.cfg set? If it is missing, look in etc/theme.cfg.",
        call("read theme.cfg", "readFile", path="theme.cfg"),
        "Error from readFile: theme.cfg does not exist.",
        call("theme.cfg is missing, read etc/theme.cfg", "readFile", path="etc/theme.cfg"),
        "Result of readFile:\n1: colour = blue",
        answer("etc/theme.cfg sets the colour blue; there is no theme.cfg."),
    ),
    example(
        "writeNewFile",
        "Make a file greeting.txt that says Good morning.",
        call("create greeting.txt", "writeNewFile", path="greeting.txt", content="Good morning."),
    ),
    example(
        "writeNewFile",
        "Make limits.json, a JSON object with max 5.",
        call("create limits.json", "writeNewFile", path="limits.json", content='{"max": 5}'),
    ),
    example("", "What does HTTP stand for?", answer("HTTP stands for Hypertext Transfer Protocol.")),
    example("readFile", "Explain server.ini.", call("read server.ini", "readFile", path="server.ini")),
    example(
        "readFile updateFile",
        "Read server.ini and set its port to 8050.",
        call("read server.ini", "readFile", path="server.ini"),
        "Result of readFile:\n1: [server]\n2: port = 8043",
        call(
            "change 8043 to 8050 in server.ini",
            "updateFile",
            path="server.ini",
            old="port = 8043",
            new="port = 8050",
        ),
        "Result of updateFile:\nupdated server.ini",
        answer("I changed the port in server.ini to 8050."),
    ),
    example(
        "updateFile",
        "Fix the typo 'adress' in form.html, it is 'address'.",
        call(
            "change adress to address in form.html",
            "updateFile",
            path="form.html",
            old="adress",
            new="address",
        ),
    ),
    example(
        "run writeNewFile",
        "Write the newest tag of the repository into tag.txt.",
        call("list the tags with git", "run", command="git tag --sort=-creatordate"),
        "Result of run:\nexit code 0\nv1.2\nv1.1",
        call("write v1.2 into tag.txt", "writeNewFile", path="tag.txt", content="v1.2"),
        "Result of writeNewFile:\ncreated tag.txt",
        answer("The newest tag is v1.2; I wrote v1.2 into tag.txt."),
    ),
    example(
        "grep_content writeNewFile",
        "Where is the tide gauge mentioned? Note the place in place.txt.",
        call("search for tide gauge", "grep_content", path=".", pattern="tide gauge"),
        "Result of grep_content:\nsea.md:7: the tide gauge at the pier",
        call("write sea.md:7 into place.txt", "writeNewFile", path="place.txt", content="sea.md:7"),
        "Result of writeNewFile:\ncreated place.txt",
        answer(
            "sea.md:7 mentions the tide gauge: the tide gauge at the pier. I wrote sea.md:7 into place.txt."
        ),
    ),
    example(
        "list_tools",
        "What is the headline on news.example today?",
        call("no tool for web pages, look for one", "list_tools", query="read a web page"),
        "Result of list_tools:\nThere is no such tool.",
        answer("I cannot tell: there is no tool that reads web pages."),
    ),
    example(
        "list_tools",
        "Turn off the lamp in the hall.",
        call("no tool for lamps, look for one", "list_tools", query="switch a lamp"),
    ),
    example(
        "list_tools",
        "Copy plan.md to old/plan.md.",
        call("no tool for copying, look for one", "list_tools", query="copy a file"),
        without="copyFile",
    ),
    example(
        "list_tools get_tool_schemas",
        "Text Bob that his parcel is here.",
        call("no tool for text messages, look for one", "list_tools", query="send a text message"),
        "Result of list_tools:\n- sms_send: Send a text message.\n- sms_list: Show text messages.\n"
        "Get the one you need with get_tool_schemas.",
        call("get sms_send", "get_tool_schemas", names=["sms_send"]),
        "You can now use:\n- sms_send(to: string, text: string): Send a text message.",
        call("send the text to Bob", "sms_send", to="Bob", text="Your parcel is here."),
        "Result of sms_send:\nsent",
        answer("I sent Bob the text: Your parcel is here."),
    ),
    example("", "Who wrote Hamlet?", answer("William Shakespeare wrote Hamlet.")),
)
