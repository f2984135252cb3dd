"""A client in ten lines, without jaato: `python websocket.py ws://127.0.0.1:8391 TOKEN_FILE`."""

import json
import sys
from pathlib import Path

from websockets.sync.client import connect

headers = {"Authorization": f"Bearer {Path(sys.argv[2]).read_text().strip()}"}
with connect(f"{sys.argv[1]}/v1/connect", additional_headers=headers) as server:
    server.send('{"type": "hello", "protocol": 1, "name": "ten lines"}')
    server.send(json.dumps({"type": "session.create", "id": "1", "workspace": str(Path.cwd())}))
    for frame in map(json.loads, server):
        if frame["type"] == "reply" and frame["id"] == "1":
            say = {"session_id": frame["result"]["session_id"], "text": "What is in here?"}
            server.send(json.dumps({"type": "message.send", "id": "2", **say}))
        elif frame["type"] == "agent.output":
            print(frame["text"], end="", flush=True)
        elif frame["type"] == "turn.completed":
            break
