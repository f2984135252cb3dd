"""The one task of the server written by hand."""

from __future__ import annotations

from typing import Any

STATE: dict[str, Any] = {"polls": 0, "said": None}


def task(mode: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Where the one task of this server stands."""
    told = {
        "taskId": "t-1",
        "ttlMs": 60_000,
        "pollIntervalMs": 20,
        "status": "working",
        "statusMessage": "at it",
    }
    if method == "tasks/update":
        STATE["said"] = params["inputResponses"]["who"]["content"]["name"]
        return {}
    if method == "tasks/cancel":
        return {}
    STATE["polls"] += 1
    if mode == "task-fails" and STATE["polls"] > 1:
        return {**told, "status": "failed", "error": {"code": -32603, "message": "the oven broke"}}
    if mode == "task-asks" and STATE["said"] is None:
        form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        ask = {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Who?", "requestedSchema": form},
        }
        return {**told, "status": "input_required", "inputRequests": {"who": ask}}
    if mode != "task-forever" and STATE["polls"] > 2:
        return {
            **told,
            "status": "completed",
            "result": {"content": [{"type": "text", "text": f"done {STATE['said']}"}]},
        }
    return told
