"""The prompts and tasks the embedded model is measured with, and the tools it is given for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaato.protocol.specs import ToolSpec

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
TEXTS = {"type": "array", "items": TEXT}


def spec(name: str, description: str, required: Mapping[str, Any], **optional: Any) -> ToolSpec:
    """A tool of the measured set."""
    parameters = {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, parameters)


TOOLS = (
    spec("readFile", "Read a text file with line numbers.", {"path": TEXT}, offset=NUMBER, limit=NUMBER),
    spec("list_directory", "List the files and folders in a directory.", {"path": TEXT}),
    spec("writeNewFile", "Create a file that does not exist yet.", {"path": TEXT, "content": TEXT}),
    spec(
        "updateFile",
        "Change a file: replace `old`, which must occur once, by `new`.",
        {"path": TEXT},
        old=TEXT,
        new=TEXT,
        new_content=TEXT,
    ),
    spec(
        "grep_content",
        "Search the contents of files for a regular expression.",
        {"pattern": TEXT},
        path=TEXT,
        max_results=NUMBER,
    ),
    spec("glob_files", "Find files by name, such as **/*.py.", {"pattern": TEXT}, root=TEXT),
    spec("removeFile", "Delete a file.", {"path": TEXT}),
    spec(
        "moveFile",
        "Move or rename a file.",
        {"source_path": TEXT, "destination_path": TEXT},
        overwrite={"type": "boolean"},
    ),
    spec(
        "run",
        "Run a shell command and return its output.",
        {"command": TEXT},
        timeout_s={"type": "number"},
        background={"type": "boolean"},
    ),
    spec("createPlan", "Plan work of several steps.", {"title": TEXT, "steps": TEXTS}),
    spec("list_tools", "Find more tools. Say in `query` what is needed.", {}, query=TEXT, category=TEXT),
    spec("get_tool_schemas", "Get the parameters of tools by name and activate them.", {"names": TEXTS}),
)


class Case(NamedTuple):
    """A prompt, the tool it needs ("" for an answer) and the regular expressions its arguments must match."""

    prompt: str
    tool: str
    args: dict[str, str]
    optional: dict[str, str] = {}


def case(prompt: str, tool: str, optional: dict[str, str] | None = None, **args: str) -> Case:
    """A case; arguments that are neither named here nor in `optional` are wrong."""
    return Case(prompt, tool, args, optional or {})


HERE = {"path": r"\.?/?"}
CASES = (
    case("Show me the contents of notes/todo.txt.", "readFile", path=r"notes/todo\.txt"),
    case(
        "What does the function parse in lib/reader.py do?",
        "readFile|grep_content",
        optional={"path": r"lib/reader\.py", "pattern": r".*parse.*"},
    ),
    case("Print lines 20 to 30 of big.log.", "readFile", path=r"big\.log", offset="20|19", limit="1[01]|30"),
    case("Open pyproject.toml and tell me the version.", "readFile", path=r"pyproject\.toml"),
    case("Summarise docs/design.md in one sentence.", "readFile", path=r"docs/design\.md"),
    case("Which files are in the directory assets?", "list_directory", path="(./)?assets/?"),
    case("List the current folder.", "list_directory", path=r"\.?/?"),
    case("What is inside src/models?", "list_directory", path="src/models/?"),
    case(
        "Create hello.py that prints hello world.",
        "writeNewFile",
        path=r"hello\.py",
        content=r"""(?is)print\(["']hello,? world!?["']\)\s*""",
    ),
    case(
        "Write a file named color.txt containing the word blue.",
        "writeNewFile",
        path=r"color\.txt",
        content=r"blue\.?\s*",
    ),
    case(
        "Make a new file data/list.csv with the header name,age.",
        "writeNewFile",
        path=r"data/list\.csv",
        content=r"name,age\s*",
    ),
    case(
        "Save the text 'Meeting at 5' to reminder.txt.",
        "writeNewFile",
        path=r"reminder\.txt",
        content=r"Meeting at 5\s*",
    ),
    case(
        "Create an empty JSON object in config/empty.json.",
        "writeNewFile",
        path=r"config/empty\.json",
        content=r"\{\s*\}\s*",
    ),
    case(
        "In settings.py replace DEBUG = True with DEBUG = False.",
        "updateFile",
        path=r"settings\.py",
        old="DEBUG = True",
        new="DEBUG = False",
    ),
    case(
        "Change the title 'Old Name' to 'New Name' in index.html.",
        "updateFile",
        path=r"index\.html",
        old=".*Old Name.*",
        new=".*New Name.*",
    ),
    case(
        "Fix the typo 'recieve' to 'receive' in mail.md.",
        "updateFile",
        path=r"mail\.md",
        old="recieve",
        new="receive",
    ),
    case(
        "In docker-compose.yml, use port 9090 instead of 8080.",
        "updateFile|readFile",
        path=r"docker-compose\.yml",
        optional={"old": ".*8080.*", "new": ".*9090.*"},
    ),
    case(
        "Replace colour by color in style.css.", "updateFile", path=r"style\.css", old="colour", new="color"
    ),
    case(
        "Find where the word deadline occurs in the project.",
        "grep_content",
        pattern=r".*deadline.*",
        optional={**HERE, "max_results": r"\d+"},
    ),
    case("Search for TODO in the folder src.", "grep_content", pattern=".*TODO.*", path="src/?"),
    case(
        "Which files mention the class InvoicePrinter?",
        "grep_content",
        pattern=".*InvoicePrinter.*",
        optional=HERE,
    ),
    case(
        "Grep for import requests in app/.",
        "grep_content",
        pattern=r".*import\s*\\?\s?requests.*",
        path="app/?",
    ),
    case("Find all Python files.", "glob_files", pattern=r"(\*\*/)?\*\.py", optional={"root": r"\.?/?"}),
    case(
        "Which markdown files are there below docs?",
        "glob_files",
        pattern=r"(docs/)?(\*\*/)?\*\.md",
        optional={"root": "docs/?"},
    ),
    case(
        "Find every file named Makefile.",
        "glob_files",
        pattern=r"(\*\*/)?Makefile",
        optional={"root": r"\.?/?"},
    ),
    case("Delete old.bak.", "removeFile", path=r"old\.bak"),
    case("Please remove the file tmp/cache.db.", "removeFile", path=r"tmp/cache\.db"),
    case(
        "Rename draft.txt to final.txt.",
        "moveFile",
        source_path=r"draft\.txt",
        destination_path=r"final\.txt",
    ),
    case(
        "Move logo.png into the folder images.",
        "moveFile",
        source_path=r"logo\.png",
        destination_path=r"images/?(logo\.png)?",
    ),
    case("Run the tests with pytest.", "run", command=r"(python3? -m )?pytest.*"),
    case("What is the git status?", "run", command="git status.*"),
    case("Show the last five commits.", "run", command=r"git log.*5.*"),
    case("How much disk space is free?", "run", command="df.*"),
    case("Run make build.", "run", command="make build"),
    case(
        "Make a plan to release version 2: update changelog, tag, publish.",
        "createPlan",
        title=".*",
        steps=".*",
    ),
    case(
        "Plan the database migration in three steps: backup, migrate, verify.",
        "createPlan",
        title=".*",
        steps=".*",
    ),
    case("Send an e-mail to Ann that I am late.", "list_tools", query=".*mail.*"),
    case("Take a screenshot of the web page example.org.", "list_tools", query=".*(screenshot|web).*"),
    case("What is the capital of Japan?", ""),
    case("Explain in one sentence what a hash table is.", ""),
)


COPY = spec(
    "copyFile", "Copy a file.", {"source_path": TEXT, "destination_path": TEXT}, overwrite={"type": "boolean"}
)


class Task(NamedTuple):
    """A task of several steps: the calls it needs in order, each with the result that is played back, and the tool
    that can be found."""

    prompt: str
    steps: tuple[tuple[Case, str], ...]
    answer: str
    found: ToolSpec = COPY


TASKS = (
    Task(
        "Read names.txt and write its first line to first.txt.",
        (
            (case("", "readFile", {"limit": ".*", "offset": ".*"}, path=r"names\.txt"), "1: Zoe\n2: Adam"),
            (case("", "writeNewFile", path=r"first\.txt", content=r"Zoe\s*"), "created first.txt"),
        ),
        ".*first.*",
    ),
    Task(
        "Find out which file contains the word salary and delete that file.",
        (
            (case("", "grep_content", HERE, pattern=".*salary.*"), "hr/pay.txt:3: salary 100"),
            (case("", "removeFile", path=r"hr/pay\.txt"), "removed hr/pay.txt"),
        ),
        ".*pay.*",
    ),
    Task(
        "Copy a.txt to b.txt.",
        (
            (
                case("", "list_tools", query=".*copy.*"),
                '{"results":[{"query":"copy","tools":[{"name":"copyFile","description":"Copy a file."}]}]}',
            ),
            (case("", "get_tool_schemas", names=r".*copyFile.*"), ""),
            (case("", "copyFile", source_path=r"a\.txt", destination_path=r"b\.txt"), "copied"),
        ),
        ".*b.txt.*",
    ),
    Task(
        "What is the version in version.txt? If there is no such file look in VERSION.",
        (
            (case("", "readFile", path=r"version\.txt"), "!version.txt does not exist."),
            (case("", "readFile", path="VERSION"), "1: 4.2.1"),
        ),
        r".*4\.2\.1.*",
    ),
    Task(
        "List the folder inbox and then show me the one file in it.",
        (
            (case("", "list_directory", path="inbox/?"), "report.txt"),
            (case("", "readFile", path=r"inbox/report\.txt"), "1: All is well."),
        ),
        ".*well.*",
    ),
    Task(
        "Delete the file that git status shows as untracked.",
        (
            (case("", "run", command="git status.*"), "exit code 0\n?? scratch.txt"),
            (case("", "removeFile", path=r"scratch\.txt"), "removed scratch.txt"),
        ),
        ".*scratch.*",
    ),
    Task(
        "In main.c the greeting is misspelled. Read the file and correct the spelling.",
        (
            (case("", "readFile", path=r"main\.c"), '1: int main(void) {\n2:   puts("Helo world");\n3: }'),
            (case("", "updateFile", path=r"main\.c", old=".*Helo.*", new=".*Hello.*"), "updated main.c"),
        ),
        ".*",
    ),
    Task(
        "Read price.txt and change the price in it to 12.",
        (
            (case("", "readFile", path=r"price\.txt"), "1: price: 10"),
            (case("", "updateFile", path=r"price\.txt", old=".*10.*", new=".*12.*"), "updated price.txt"),
        ),
        ".*12.*",
    ),
)
