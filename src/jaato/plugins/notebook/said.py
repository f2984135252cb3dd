"""What one cell has said, as a notebook file has it, never more than a bounded amount. Part of the bridge's program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

HEAD_CHARS = 100_000
TAIL_CHARS = 100_000
SHOWN_CHARS = 16_000
MOST_DISPLAYS = 40
MOST_BYTES = 20_000_000
COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Said:
    """The outputs of a cell: streams, values, displays and an error, in order. Text beyond the head is kept by its end."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.omitted = 0
        self._head = 0
        self._tail = ""
        self._tail_name = "stdout"
        self._displays = self._bytes = 0
        self._clear = False

    def take(self, kind: str, content: dict[str, Any]) -> str:
        """One message of the kernel; gives the text to be shown as it comes."""
        if self._clear and kind != "clear_output":
            self._forget()
        if kind == "stream":
            text = COLOUR.sub("", str(content.get("text", "")))
            self._stream(str(content.get("name", "stdout")), text)
            return text
        if kind == "error":
            lines = [COLOUR.sub("", str(line)) for line in content.get("traceback", [])]
            name, value = str(content.get("ename")), COLOUR.sub("", str(content.get("evalue")))
            self.outputs.append({"output_type": "error", "ename": name, "evalue": value, "traceback": lines})
        elif kind in ("execute_result", "display_data"):
            return self._display(kind, content)
        elif kind == "update_display_data":
            self._update(content)
        elif kind == "clear_output":
            self._clear = True
            if not content.get("wait"):
                self._forget()
        return ""

    def done(self) -> list[dict[str, Any]]:
        """All outputs, the end of the text included."""
        if self._tail or self.omitted:
            note = f"\n[… {self.omitted:,} characters left out …]\n" if self.omitted else ""
            at = next(
                (i for i, o in enumerate(self.outputs) if o["output_type"] == "error"), len(self.outputs)
            )
            self.outputs.insert(
                at, {"output_type": "stream", "name": self._tail_name, "text": note + self._tail}
            )
        for output in self.outputs:
            output.pop("_id", None)
        return self.outputs

    def _forget(self) -> None:
        kept = {name: getattr(self, name) for name in ("_displays", "_bytes")}
        self.__init__()  # type: ignore[misc]  # as new, but for what bounds the whole cell
        self._displays, self._bytes = kept["_displays"], kept["_bytes"]

    def _stream(self, name: str, text: str) -> None:
        room = HEAD_CHARS - self._head
        if room > 0:
            piece, text = text[:room], text[room:]
            self._head += len(piece)
            last = self.outputs[-1] if self.outputs else {}
            if last.get("output_type") == "stream" and last["name"] == name:
                last["text"] += piece
            else:
                self.outputs.append({"output_type": "stream", "name": name, "text": piece})
        if text:
            self._tail += text
            self._tail_name = name
            surplus = len(self._tail) - TAIL_CHARS
            if surplus > 0:
                self.omitted += surplus
                self._tail = self._tail[surplus:]

    def _display(self, kind: str, content: dict[str, Any]) -> str:
        self._displays += 1
        data = self._bounded(content.get("data"))
        if self._displays > MOST_DISPLAYS:
            return ""
        made: dict[str, Any] = {"output_type": kind, "data": data, "metadata": {}}
        if kind == "execute_result":
            made["execution_count"] = content.get("execution_count")
        identity = (content.get("transient") or {}).get("display_id")
        if identity is not None:
            made["_id"] = identity
        self.outputs.append(made)
        return str(data.get("text/plain", "")) + "\n"

    def _update(self, content: dict[str, Any]) -> None:
        identity = (content.get("transient") or {}).get("display_id")
        for output in self.outputs:
            if identity is not None and output.get("_id") == identity:
                output["data"] = self._bounded(content.get("data"))

    def _bounded(self, data: Any) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for kind, value in list(data.items())[:20] if isinstance(data, dict) else []:
            if not isinstance(value, str):
                continue
            text = COLOUR.sub("", value) if kind.startswith("text/") else value
            if kind == "text/plain" and len(text) > HEAD_CHARS:
                text = f"{text[:HEAD_CHARS]}\n[… {len(text) - HEAD_CHARS:,} characters left out …]"
            self._bytes += len(text)
            if self._bytes > MOST_BYTES:
                kept["text/plain"] = kept.get("text/plain", "") + f"[{kind} left out: too much in one cell]"
                continue
            kept[kind] = text
        return kept


class Shown:
    """What is shown while the cell runs: so much at a time, the rest counted."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._parts: list[str] = []
        self._chars = self._skipped = 0

    def take(self, text: str) -> None:
        """More text."""
        piece = text[: SHOWN_CHARS - self._chars]
        if piece:
            self._parts.append(piece)
            self._chars += len(piece)
        self._skipped += len(text) - len(piece)

    def flush(self) -> None:
        """Show what there is."""
        text = "".join(self._parts)
        if self._skipped:
            text += f"\n[… {self._skipped:,} characters not shown …]\n"
        self._parts, self._chars, self._skipped = [], 0, 0
        if text:
            self._tell(event="output", text=text)
