"""What is said to a language server when it starts: what its client can do, and that it lets nothing be done to it."""

from __future__ import annotations

from typing import Any

SYMBOL_KINDS = (
    "file module namespace package class method property field constructor enum interface function variable "
    "constant string number boolean array object key null enum_member struct event operator type_parameter"
).split()
SEVERITIES = ("error", "warning", "information", "hint")

CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "window": {"workDoneProgress": True, "showMessage": {}},
    "workspace": {
        "applyEdit": False,
        "configuration": True,
        "didChangeConfiguration": {"dynamicRegistration": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceFolders": True,
        "symbol": {"symbolKind": {"valueSet": list(range(1, 27))}},
        "workspaceEdit": {"documentChanges": True, "failureHandling": "abort"},
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "definition": {"linkSupport": True},
        "typeDefinition": {"linkSupport": True},
        "implementation": {"linkSupport": True},
        "declaration": {"linkSupport": True},
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "publishDiagnostics": {"relatedInformation": False, "versionSupport": True},
        "diagnostic": {"relatedDocumentSupport": False},
        "rename": {"prepareSupport": False},
        "codeAction": {
            "codeActionLiteralSupport": {
                "codeActionKind": {
                    "valueSet": ["", "quickfix", "refactor", "source", "source.organizeImports"]
                }
            },
            "isPreferredSupport": True,
            "disabledSupport": True,
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
        },
    },
}
