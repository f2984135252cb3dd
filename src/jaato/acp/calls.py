"""Tool calls as editors show them: title, kind, locations, diffs, content."""

from __future__ import annotations

import re
from typing import Any

from acp.helpers import text_block, tool_content, tool_diff_content
from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    TerminalToolCallContent,
    ToolCallLocation,
    ToolKind,
)

from jaato.acp.diffs import MAX_HUNKS, Hunk, absolute, parse_diff
from jaato.acp.outputs import exit_code_of
from jaato.acp.terminals import terminal_content
from jaato.cli.output.console import printable, visible
from jaato.cli.output.wording import call_text, sandbox_text
from jaato.protocol.events import ToolCallEnd
from jaato.protocol.messages import Text, ToolResult
from jaato.settings.budgets import format_count

MAX_TITLE_CHARS = 300
MAX_CONTENT_CHARS = 32_000
MAX_RAW_CHARS = 32_000
MAX_LOCATIONS = 20
MAX_DEPTH = 20
PATHS = ("path", "file_path", "source_path", "destination_path", "archive", "image")
"""Arguments that name files."""
KINDS: dict[ToolKind, str] = {
    "read": "readFile list_directory get_file_info listBackups viewImage get_environment mcp_read_resource get_template "
    "git_status git_diff git_log git_blame git_show check_background get_background_output shell_read",
    "edit": "apply_patch writeNewFile updateFile multiFileEdit findAndReplace undoFileChange restoreFile createDirectory "
    "copyFile renderTemplate create_template lsp_rename_symbol restore_waypoint",
    "delete": "removeFile delete_template",
    "move": "moveFile",
    "search": "glob_files grep_content ast_search list_tools get_tool_schemas mcp_servers mcp_resources mcp_prompts "
    "lsp_goto_definition lsp_find_references lsp_hover lsp_document_symbols lsp_workspace_symbols lsp_get_diagnostics",
    "execute": "run shell_spawn shell_input shell_control shell_close notebook_execute notebook_create sqlite_query "
    "sqlite_execute start_background stop_background archive_extract archive_create",
    "fetch": "fetch_url fetch_url_post http_request web_search",
    "think": "createPlan startPlan setStepStatus getPlanStatus addStep completePlan listPlans clearPlan delegate "
    "continue_subagent get_subagent_result calculate",
}
KIND_OF: dict[str, ToolKind] = {name: kind for kind, names in KINDS.items() for name in names.split()}
Content = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent


def kind_of(tool: str) -> ToolKind:
    """The kind of a call; `other` for tools of plugins, servers and registries."""
    return KIND_OF.get(tool, "other")


def title_of(tool: str, arguments: dict[str, Any], agent: str = "") -> str:
    """A call on one line, a subagent's with its name; control and invisible characters are spelled out."""
    text = call_text(tool, arguments, MAX_TITLE_CHARS)
    return f"[{visible(agent)}] {text}" if agent else text


def locations_of(arguments: dict[str, Any], workspace: str) -> list[ToolCallLocation]:
    """The files that a call names, absolute; those whose names hide something are left out."""
    edits = arguments.get("edits")
    entries = [arguments, *(edits if isinstance(edits, list) else [])]
    line = arguments.get("offset")
    found: dict[str, int | None] = {}
    for entry in entries[:MAX_LOCATIONS]:
        for key in PATHS:
            path = entry.get(key) if isinstance(entry, dict) else None
            if isinstance(path, str) and path and visible(path) == path and not path.startswith("result:"):
                found[absolute(workspace, path)] = line if isinstance(line, int) and line > 0 else None
    return [ToolCallLocation(path=path, line=line) for path, line in found.items()]


def diffs_in(value: Any, workspace: str) -> list[FileEditToolCallContent]:
    """The diffs in the result of a call that changed files: its `diff`, or one for each of its `files`."""
    files = value.get("files") if isinstance(value, dict) else None
    entries = files if isinstance(files, list) else [value]
    hunks: list[Hunk] = []
    for entry in entries:
        if isinstance(entry, dict) and isinstance(diff := entry.get("diff"), str):
            hunks += parse_diff(diff, str(entry.get("path", "")))
    return diff_contents(hunks, workspace)


def diff_contents(hunks: list[Hunk], workspace: str) -> list[FileEditToolCallContent]:
    """Diffs as content of a call."""
    return [
        tool_diff_content(
            visible(absolute(workspace, hunk.path)),
            visible(hunk.new),
            None if hunk.old is None else visible(hunk.old),
        )
        for hunk in hunks[:MAX_HUNKS]
        if hunk.path
    ]


def output_content(text: str, *, fenced: bool = True) -> list[Content]:
    """The output of a call, its end if it is long, as text that editors show as it is."""
    shown = printable(text[-MAX_CONTENT_CHARS:]).strip("\n")
    if not shown:
        return []
    if len(text) > MAX_CONTENT_CHARS:
        shown = f"… {format_count(len(text) - MAX_CONTENT_CHARS, 'character')} before …\n{shown}"
    if fenced:
        longest = max((len(run) for run in re.findall("`+", shown)), default=0)
        fence = "`" * max(3, longest + 1)
        shown = f"{fence}\n{shown}\n{fence}"
    return [tool_content(text_block(shown))]


def result_content(event: ToolCallEnd, workspace: str, terminal: str | None = None) -> list[Content]:
    """The result of a call: its terminal, its diffs, else its text, or the reason why it failed."""
    result = event.result
    if event.permission is not None and event.permission.decision == "denied":
        return output_content(f"denied: {event.permission.reason}", fenced=False)
    shown: list[Content] = [] if terminal is None else [terminal_content(terminal)]
    if result.error is not None and not result.content:
        return [*shown, *output_content(result.error.message)]
    diffs: list[Content] = (
        list(diffs_in(result.structured, workspace)) if kind_of(event.tool) == "edit" else []
    )
    notes = output_content(sandbox_text(event) or "", fenced=False)
    shown = shown or diffs or output_content(result_text(result))
    return [*shown, *notes]


def result_text(result: ToolResult) -> str:
    """The text of a result; of a command what it printed, and how it ended if that is a failure."""
    code = exit_code_of(result)
    text = printed_text(result)
    return f"{text}\nexit code {code}" if code and result.ok else text


def printed_text(result: ToolResult) -> str:
    """What a command has printed; of other calls the text of the result."""
    if isinstance(result.structured, dict) and isinstance(output := result.structured.get("output"), str):
        return output
    return "".join([part.text for part in result.content if isinstance(part, Text)])


def raw_value(value: Any, depth: int = 0) -> Any:
    """Arguments or a result without control characters; what is too long or too deep is cut."""
    match value:
        case str():
            text = visible(value[:MAX_RAW_CHARS])
            more = len(value) - MAX_RAW_CHARS
            return f"{text}… ({format_count(more, 'more character')})" if more > 0 else text
        case dict() if depth < MAX_DEPTH:
            return {visible(str(key)): raw_value(item, depth + 1) for key, item in value.items()}
        case list() | tuple() if depth < MAX_DEPTH:
            return [raw_value(item, depth + 1) for item in value[:1_000]]
        case dict() | list() | tuple():
            return "…"
    return value
