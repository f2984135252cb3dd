"""Nine short conversations that show the embedded model the form of its turns."""

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
        "readFile",
        "Which port does server.ini use?",
        '{"tool": "readFile", "args": {"path": "server.ini"}}',
        "Result of readFile:\n1: [server]\n2: port = 8043",
        '{"answer": "server.ini uses port 8043."}',
    ),
    example(
        "writeNewFile",
        "Make a file greeting.txt that says Good morning.",
        '{"tool": "writeNewFile", "args": {"path": "greeting.txt", "content": "Good morning.\\n"}}',
        "Result of writeNewFile:\ncreated greeting.txt",
        '{"answer": "I created greeting.txt with the text Good morning."}',
    ),
    example(
        "updateFile",
        "In app.cfg, set debug = yes instead of debug = no.",
        '{"tool": "updateFile", "args": {"path": "app.cfg", "old": "debug = no", "new": "debug = yes"}}',
        "Result of updateFile:\nupdated app.cfg",
        '{"answer": "app.cfg now has debug = yes."}',
    ),
    example(
        "run",
        "Run the linter on src.",
        '{"tool": "run", "args": {"command": "ruff check src"}}',
        "Result of run:\nexit code 0\nAll checks passed!",
        '{"answer": "The linter found no problems in src."}',
    ),
    example(
        "list_tools get_tool_schemas",
        "Copy plan.md to plan-old.md.",
        '{"tool": "list_tools", "args": {"query": "copy a file"}}',
        'Result of list_tools:\n{"results":[{"query":"copy a file","tools":[{"name":"copyFile",'
        '"description":"Copy a file."}]}]}',
        '{"tool": "get_tool_schemas", "args": {"names": ["copyFile"]}}',
        "You can now use:\n- copyFile(source_path: string, destination_path: string): Copy a file.",
        '{"tool": "copyFile", "args": {"source_path": "plan.md", "destination_path": "plan-old.md"}}',
        "Result of copyFile:\ncopied",
        '{"answer": "I copied plan.md to plan-old.md."}',
    ),
    example(
        "createPlan",
        "Plan the release: update the version, run the tests, tag it.",
        '{"tool": "createPlan", "args": {"title": "Release", "steps": ["Update the version", "Run the tests", '
        '"Tag it"]}}',
        "Result of createPlan:\nplan created with 3 steps",
        '{"answer": "The plan Release has three steps: update the version, run the tests, tag it."}',
    ),
    example("", "What does HTTP stand for?", '{"answer": "HTTP stands for Hypertext Transfer Protocol."}'),
    example(
        "readFile list_directory",
        "Show me the readme.",
        '{"tool": "readFile", "args": {"path": "readme.txt"}}',
        "Error from readFile: readme.txt does not exist.",
        '{"tool": "list_directory", "args": {"path": "."}}',
        "Result of list_directory:\nREADME.md\nsrc",
        '{"tool": "readFile", "args": {"path": "README.md"}}',
        "Result of readFile:\n1: # Tides\n2: Predicts tides.",
        '{"answer": "README.md says that this is Tides, which predicts tides."}',
    ),
)
