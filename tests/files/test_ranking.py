"""A request in plain words finds the tool for it first, among all that come with jaato."""

from __future__ import annotations

import pytest

from jaato.runtime.plugins.lazy import load_manifests
from jaato.tools.search.bm25 import Bm25Index

WANTED = {
    "delete a file": "removeFile",
    "erase a file": "removeFile",
    "delete a directory": "removeFile",
    "delete the plan": "clearPlan",
    "make a new file": "writeNewFile",
    "create a new file": "writeNewFile",
    "save text to a file": "writeNewFile",
    "append to a file": "updateFile",
    "overwrite a file": "updateFile",
    "insert text into a file": "updateFile",
    "rename a file": "moveFile",
    "duplicate a file": "copyFile",
    "make a folder": "createDirectory",
    "list directory contents": "list_directory",
    "file size and permissions": "get_file_info",
    "change several files at once": "multiFileEdit",
    "rename a variable in all files": "lsp_rename_symbol",
    "replace a word in all files": "findAndReplace",
    "revert an edit": "undoFileChange",
    "restore an old version": "restoreFile",
    "which versions of a file are kept": "listBackups",
    "find text in files": "grep_content",
    "search code for a function": "ast_search",
    "find files by name": "glob_files",
    "locate a file": "glob_files",
    "add a step to the plan": "addStep",
}


@pytest.fixture(scope="module")
def index() -> Bm25Index:
    """An index over the tools that come with jaato."""
    found = Bm25Index()
    found.update(tool.spec for plugin in load_manifests().values() for tool in plugin.tools)
    return found


@pytest.mark.parametrize(("request_", "tool"), WANTED.items(), ids=lambda value: str(value).replace(" ", "-"))
def test_a_plain_request_finds_its_tool(index: Bm25Index, request_: str, tool: str) -> None:
    """The tool meant is the first of the list."""
    assert index.search(request_)[0][0] == tool
