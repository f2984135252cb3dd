"""Plugins that are broken, each in one way, as the text of their module, with the words a user reads about it."""

from __future__ import annotations

GOOD = """
from jaato import Plugin, ToolSchema, UserCommand, PromptEnrichmentResult, tool
PLUGIN_KIND = "tool"
PARAMETERS = {{"type": "object", "properties": {{"text": {{"type": "string"}}}}}}
class Animal:
    name = "animal"
    def get_tool_schemas(self): return [ToolSchema("growl", "Growl at somebody.", PARAMETERS)]
    def get_executors(self): return {{"growl": lambda arguments: "grr"}}
    def initialize(self, config=None): pass
    def shutdown(self): pass
    def get_system_instructions(self): return None
    def get_auto_approved_tools(self): return ["growl"]
    def get_user_commands(self): return []
{members}
{after}
"""


def plugin_text(members: str = "", after: str = "") -> str:
    """A good plugin with these members added to its class, and these lines after it."""
    lines = "\n".join(f"    {line}" for line in members.splitlines())
    return GOOD.format(members=lines, after=after)


def schemas(expression: str, before: str = "pass") -> str:
    """One whose `get_tool_schemas` gives this."""
    return plugin_text(f"def get_tool_schemas(self):\n    {before}\n    return {expression}")


AT_IMPORT: dict[str, tuple[str, str]] = {
    "raises": ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
    "exits": ("exit(3)", "SystemExit: 3"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "raises what is no Exception": ("class Oh(BaseException): pass\nraise Oh('oh')", "Oh: oh"),
    "raises what cannot be shown": (
        "class Dumb(Exception):\n    def __str__(self): raise ValueError\nraise Dumb",
        "(its text cannot be had)",
    ),
    "is no Python": ("def (", "SyntaxError"),
    "has a null byte": ("x = '\0'", "null bytes"),
    "needs what is not there": ("import nothing_of_that_name", "nothing_of_that_name"),
    "calls itself for ever": ("def f(): f()\nf()", "RecursionError"),
    "hangs": ("import time\ntime.sleep(30)", "has not answered for"),
    "wants the signals": ("import signal\nsignal.signal(signal.SIGTERM, print)", "main thread"),
    "forgets itself": ("import sys\ndel sys.modules[__name__]\nraise OSError('gone')", "OSError: gone"),
}
"""While its file is imported."""

IN_THE_MAKING: dict[str, tuple[str, str]] = {
    "has no class": ("PLUGIN_KIND = 'tool'", "defines 0 plugin classes"),
    "has two classes": (plugin_text(after="class Second(Animal): pass"), "defines 2 plugin classes"),
    "makes nothing": (plugin_text(after="def create_plugin(): return None"), "has no `name`"),
    "fails to make": (plugin_text(after="def create_plugin(): raise OSError('no disk')"), "OSError: no disk"),
    "hangs when made": (
        plugin_text("def __init__(self):\n    import time\n    time.sleep(30)"),
        "has not answered for",
    ),
    "has a name that raises": (
        plugin_text("@property\ndef name(self): raise KeyError('who')"),
        "KeyError: 'who'",
    ),
    "has a number for a name": (plugin_text("name = 7"), "has no `name`"),
    "has a name that ends the program": (
        plugin_text("@property\ndef name(self): raise KeyboardInterrupt"),
        "KeyboardInterrupt",
    ),
    "has a name that hangs": (
        plugin_text("@property\ndef name(self):\n    import time\n    time.sleep(30)"),
        "has not answered for",
    ),
    "has a name that clears the screen": (plugin_text("name = '\\x1b[2Jcli'"), "a name that cannot be shown"),
    "has a name without end": (plugin_text("name = 'n' * 10_000"), "a name that cannot be shown"),
    "initialises later": (plugin_text("async def initialize(self, config=None): pass"), "is asynchronous"),
    "needs what nobody gives": (plugin_text("def __init__(self, what): pass"), "TypeError"),
    "answers to everything": (
        plugin_text("def __getattr__(self, _name): return 7\nname = ''"),
        "has no `name`",
    ),
    "initialise raises": (
        plugin_text("def initialize(self, config=None): raise ValueError('key')"),
        "ValueError: key",
    ),
    "initialise exits": (plugin_text("def initialize(self, config=None): exit(2)"), "SystemExit"),
    "initialise interrupts": (
        plugin_text("def initialize(self, config=None): raise KeyboardInterrupt"),
        "KeyboardInterrupt",
    ),
    "initialise hangs": (
        plugin_text("def initialize(self, config=None):\n    import time\n    time.sleep(30)"),
        "has not answered for",
    ),
    "takes no configuration": (plugin_text("def initialize(self): pass"), "TypeError"),
}
"""From the module to an initialised plugin."""

DECLARED: dict[str, tuple[str, str]] = {
    "a number for schemas": (schemas("7"), "not iterable"),
    "None for a schema": (schemas("[None]"), "a tool without a name"),
    "schemas without end": (
        schemas("(ToolSchema(f't{n}', 'd', {}) for n in __import__('itertools').count())"),
        "more than 10,000",
    ),
    "schemas that come later": (
        plugin_text("async def get_tool_schemas(self): return []"),
        "is asynchronous",
    ),
    "commands without end": (
        plugin_text("def get_user_commands(self):\n    while True: yield UserCommand('a', 'b')"),
        "more than 1,000",
    ),
    "a category that clears the screen": (
        schemas("[ToolSchema('growl', 'd', PARAMETERS, category='\\x1b[2J')]"),
        "printable characters",
    ),
    "a tool without a name": (schemas("[ToolSchema('', 'd', PARAMETERS)]"), "without a name"),
    "a description of bytes": (schemas("[ToolSchema('growl', b'd', PARAMETERS)]"), "is a bytes, not text"),
    "a long description": (schemas("[ToolSchema('growl', 'd' * 99_999, PARAMETERS)]"), "longer than 10,000"),
    "parameters in a list": (schemas("[ToolSchema('growl', 'd', [1])]"), "parameters of growl are list"),
    "parameters of garbage": (
        schemas("[ToolSchema('growl', 'd', {'type': 'object', 'properties': {'a': {'type': 5}}})]"),
        "not a JSON Schema",
    ),
    "parameters of an array": (schemas("[ToolSchema('growl', 'd', {'type': 'array'})]"), "always an object"),
    "parameters in themselves": (
        schemas("[ToolSchema('growl', 'd', a)]", "a = {'type': 'object'}; a['properties'] = {'a': a}"),
        "tool growl",
    ),
    "parameters of a megabyte": (
        schemas("[ToolSchema('growl', 'd', {'type': 'object', 'description': 'x' * 1_000_000})]"),
        "larger than 256 KiB",
    ),
    "parameters from elsewhere": (
        schemas("[ToolSchema('growl', 'd', {'$ref': 'http://127.0.0.1:9/x'})]"),
        "tool growl",
    ),
    "one tool twice": (schemas("[ToolSchema('growl', 'd', {})] * 2"), "growl"),
    "the name of a built-in tool": (
        plugin_text("def get_executors(self): return {'readFile': print}")
        + "    pass\nAnimal.get_tool_schemas = lambda self: [ToolSchema('readFile', 'd', {})]",
        "file_edit and animal",
    ),
    "the name of a built-in plugin": (plugin_text("name = 'cli'"), "Two plugins are called 'cli'"),
    "a command of another plugin": (
        plugin_text("def get_user_commands(self): return [UserCommand('plan', 'd')]"),
        "the command /plan: todo and animal",
    ),
    "no executors": (plugin_text("def get_executors(self): return None"), "get_executors() has no such key"),
    "a number for an executor": (
        plugin_text("def get_executors(self): return {'growl': 7}"),
        "the executor of growl",
    ),
    "instructions of bytes": (
        plugin_text("def get_system_instructions(self): return b'do'"),
        "instructions are bytes, not text",
    ),
    "instructions without end": (
        plugin_text("def get_system_instructions(self): return 'do ' * 99_999"),
        "longer than 20,000",
    ),
    "a number for what is approved": (
        plugin_text("def get_auto_approved_tools(self): return 7"),
        "not iterable",
    ),
    "text for commands": (plugin_text("def get_user_commands(self): return ['x']"), "TypeError"),
    "a number for a command": (plugin_text("def get_user_commands(self): return [(7, 'd')]"), "user command"),
    "a prompt it does not enrich": (
        plugin_text("def subscribes_to_prompt_enrichment(self): return True"),
        "no enrich_prompt()",
    ),
    "a priority of words": (
        plugin_text(
            "def subscribes_to_prompt_enrichment(self): return True\n"
            "def enrich_prompt(self, prompt): return PromptEnrichmentResult(prompt)\n"
            "def get_enrichment_priority(self): return 'high'"
        ),
        "ValueError",
    ),
    "requirements of a number": (plugin_text("def get_model_requirements(self): return 7"), "not iterable"),
    "a workspace it refuses": (plugin_text("def set_workspace_path(self, path): exit(1)"), "SystemExit"),
}
"""What it declares, and how it is wired."""


def enriching(statement: str) -> str:
    """One that enriches prompts by this."""
    return plugin_text(
        "def subscribes_to_prompt_enrichment(self): return True\n"
        f"def enrich_prompt(self, prompt):\n    {statement}"
    )


ENRICHING: dict[str, tuple[str, str]] = {
    "raises": (enriching("raise OSError('no')"), "OSError: no"),
    "exits": (enriching("exit(1)"), "SystemExit"),
    "interrupts": (enriching("raise KeyboardInterrupt"), "KeyboardInterrupt"),
    "gives nothing": (enriching("return None"), "NoneType"),
    "gives text": (enriching("return prompt"), "no attribute"),
    "gives a number": (enriching("return PromptEnrichmentResult(7)"), "is a int, not text"),
    "gives a hundred megabytes": (
        enriching("return PromptEnrichmentResult('x' * 100_000_000)"),
        "100000000 characters long",
    ),
    "calls itself for ever": (enriching("return self.enrich_prompt(prompt)"), "RecursionError"),
}
"""What it does to a prompt."""

LEAVES: dict[str, tuple[str, str]] = {
    "changes sys.path": ("import sys\nsys.path.insert(0, '/nowhere')", "changed sys.path (/nowhere)"),
    "changes the environment": (
        "import os\nos.environ['ZOO_X'] = '1'",
        "changed environment variables (ZOO_X)",
    ),
    "starts a thread": (
        "import threading\nSTOP = threading.Event()\nthreading.Thread(target=STOP.wait, daemon=True).start()",
        "started 1 thread",
    ),
    "changes the directory": ("import os\nos.chdir('/')", "changed the working directory"),
    "replaces a hook": (
        "import sys\nsys.displayhook = lambda value: None",
        "replaced a hook or stream of sys",
    ),
}
"""What it changes around it: it runs, and the change is told."""
