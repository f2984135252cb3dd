"""A language server that misbehaves in the way its argument names; what it was sent is written to the log it is given."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

WAY = sys.argv[1]
LOG = sys.argv[2]


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def read() -> dict[str, Any]:
    size = 0
    while (line := sys.stdin.buffer.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
    if not size:
        sys.exit(0)
    message: dict[str, Any] = json.loads(sys.stdin.buffer.read(size))
    with open(LOG, "a") as log:
        log.write(json.dumps(message) + "\n")
    return message


def place(uri: str, line: int = 0) -> dict[str, Any]:
    return {
        "uri": uri,
        "range": {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 1}},
    }


def whole(uri: str, text: str) -> dict[str, Any]:
    span = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    return {"changes": {uri: [{"range": span, "newText": text}]}}


def answer(message: dict[str, Any]) -> Any:
    uri = message["params"].get("textDocument", {}).get("uri", "")
    outside = "file:///etc/passwd"
    match WAY:
        case "outside":
            return whole(outside, "x")
        case "half":
            return {"contents": "half \ud83d a pair, and a whole one \U0001f600"}
        case "meanwhile":
            with open("a.odd", "w") as file:
                file.write("# a line more\nword here\n")
            return whole(uri, "x")
        case "control":
            return whole(os.path.dirname(uri) + "/.git/hooks/pre-commit", "x")
        case "creates":
            return {"documentChanges": [{"kind": "create", "uri": uri + ".new"}]}
        case "overlaps":
            edit = whole(uri, "x")
            edit["changes"][uri] *= 2
            edit["changes"][uri][1] = {
                **edit["changes"][uri][1],
                "range": {**edit["changes"][uri][1]["range"]},
            }
            edit["changes"][uri][1]["range"] = {
                "start": {"line": 0, "character": 0},
                "end": {"line": 0, "character": 2},
            }
            return edit
        case "nonsense":
            return {"changes": {uri: [{"range": {"start": {"line": -1}, "end": 5}, "newText": 7}, None]}}
        case "many":
            return [place(uri, n) for n in range(30_000)]
    return None


def misbehave(message: dict[str, Any]) -> None:
    match WAY:
        case "dies":
            sys.stderr.write("Traceback: boom\n")
            os._exit(7)
        case "hangs":
            time.sleep(1000)
        case "deaf":
            pass  # it never answers, and reads what else comes
        case "huge":
            sys.stdout.buffer.write(b"Content-Length: 1000000000\r\n\r\n" + bytes(1 << 20))
            sys.stdout.buffer.flush()
            time.sleep(1000)
        case "wrong ids":
            send({"id": message["id"] + 1000, "result": []})
            send({"id": "x", "result": []})
            send({"id": message["id"], "result": None})
            send({"id": message["id"], "result": [place("file:///late")]})
        case "floods":
            text = "x" * 10_000
            until = time.monotonic() + 1
            while (now := time.monotonic()) < until:
                send({"method": "window/logMessage", "params": {"message": text}})
                send(
                    {
                        "method": "textDocument/publishDiagnostics",
                        "params": {"uri": f"{text}{now}", "diagnostics": [1]},
                    }
                )
                sys.stderr.write(text)
            send({"id": message["id"], "result": None})
        case "asks":
            for number, method in enumerate(("workspace/configuration", "workspace/applyEdit", "made/up")):
                send({"id": f"s{number}", "method": method, "params": {"items": [{"section": "a.b"}] * 3}})
            send({"id": message["id"], "result": None})
        case "fails":
            send({"id": message["id"], "error": {"code": -1, "message": "cannot do"}})
        case _:
            send({"id": message["id"], "result": answer(message)})


def main() -> None:
    if WAY == "dies at start":
        sys.stderr.write("no licence found\n")
        sys.exit(3)
    if WAY == "silent at start":
        time.sleep(1000)
    if WAY == "prints":
        print("Welcome to the server!" * 1000, flush=True)
    hello = read()
    ways = (
        "definitionProvider",
        "referencesProvider",
        "renameProvider",
        "hoverProvider",
        "codeActionProvider",
        "documentSymbolProvider",
    )
    send({"id": hello["id"], "result": {"capabilities": dict.fromkeys(ways, True)}})
    told: dict[str, Any] = {}
    while True:
        message = read()
        if WAY == "busy" and message.get("method") == "workspace/didChangeWatchedFiles":
            time.sleep(3)
            told["diagnostics"] = [{"range": place("")["range"], "message": "of a change elsewhere"}]
            send({"method": "textDocument/publishDiagnostics", "params": told})
        if message.get("method") == "textDocument/didOpen":
            told = {"uri": message["params"]["textDocument"]["uri"], "diagnostics": []}
            if WAY == "late news":
                time.sleep(1.5)
                told["diagnostics"] = [{"range": place("")["range"], "message": "late"}]
            send({"method": "textDocument/publishDiagnostics", "params": told})
        if "id" not in message or "method" not in message:
            continue
        misbehave(message)


main()
