"""Results as they are kept: whatever a tool gave becomes something durable, and what is long stands behind a handle."""

from __future__ import annotations

from pathlib import Path

import msgspec

from jaato.agent.journal import Journal
from jaato.agent.masking import masked_bytes, masked_file
from jaato.errors import StoreError, ToolError
from jaato.protocol.codec import encode
from jaato.protocol.messages import Media, Problem, Text, ToolResult
from jaato.tools.call import Call, Outcome, Output, result_of
from jaato.tools.pipeline import failed

RESULT_CHARS = 30_000
"""Characters of a result the model gets at once; the rest is behind its handle."""

ANY_PARTS = (Output, Media)
"""Values whose parts a tool may have made of anything."""


class Results:
    """The results and blobs of one session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def of(self, call: Call, outcome: Outcome) -> ToolResult:
        """The outcome as the log takes it; what cannot be written at all is a failure of the tool. Raises `StoreError`."""
        try:
            result = self.bounded(result_of(call, outcome))
            if not outcome.ok or type(outcome.value) in ANY_PARTS:
                encode(result)  # other values were encoded as they were made text
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 a tool's value may be of any kind and run code of its own
            fault = ToolError(f"{call.name} returned a {type(outcome.value).__name__} that cannot be kept.")
            fault.__cause__ = error
            return result_of(call, failed(fault, outcome.permission))
        return result

    def keep(self, data: bytes | Path) -> str:
        """Store bytes (or a file) as a blob of this session, masked unless they are binary; gives its handle."""
        store, session_id = self._journal.store, self._journal.state.session_id
        if isinstance(data, bytes):
            return "result:" + store.put_blob(session_id, masked_bytes(data, self._journal.secrets))
        with masked_file(data, self._journal.secrets) as path:
            return "result:" + store.put_blob_file(session_id, path)

    def read(self, handle: str, offset: int, limit: int) -> bytes:
        """Bytes behind a handle of this session."""
        digest = handle.removeprefix("result:")
        return self._journal.store.get_blob(self._journal.state.session_id, digest, offset, limit)

    def bounded(self, result: ToolResult) -> ToolResult:
        """The result with long text cut to head and tail, the whole of it behind a handle. What is cut is masked first:
        a secret does not lie across the cut."""
        if result.error is not None:
            return msgspec.structs.replace(result, error=self._bounded_problem(result.error))
        texts = [part.text for part in result.content if isinstance(part, Text)]
        handle = result.handle
        if isinstance(result.structured, dict) and isinstance(own := result.structured.get("handle"), str):
            handle = handle or own
        if sum(map(len, texts)) <= RESULT_CHARS:
            return result if handle is None else msgspec.structs.replace(result, handle=handle)
        text = self._journal.secrets.mask("\n".join(texts))
        handle = handle or self.keep(text.encode())
        media: list[Text | Media] = [part for part in result.content if not isinstance(part, Text)]
        content: list[Text | Media] = [Text(self._cut(text, handle)), *media]
        structured = result.structured
        if structured is not None and len(encode(structured)) > RESULT_CHARS:
            structured = None
        return msgspec.structs.replace(result, content=content, handle=handle, structured=structured)

    def _bounded_problem(self, problem: Problem) -> Problem:
        message, traceback = problem.message, problem.traceback
        if len(message) > RESULT_CHARS:
            message = self._journal.secrets.mask(message)
            message = self._cut(message, self.keep(message.encode()))
        if traceback is not None and len(traceback) > RESULT_CHARS:
            traceback = self._journal.secrets.mask(traceback)[-RESULT_CHARS:]
        return msgspec.structs.replace(problem, message=message, traceback=traceback)

    def _cut(self, text: str, handle: str) -> str:
        half = RESULT_CHARS // 2
        left_out = len(text) - 2 * half
        note = f'\n… {left_out} characters left out; readFile(path="{handle}") has all of it …\n'
        return text[:half] + note + text[-half:]
