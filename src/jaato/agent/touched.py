"""The files a call has changed, as an event of its session's log."""

from __future__ import annotations

from jaato.agent.journal import Journal
from jaato.protocol.events import FilesChanged
from jaato.tools.call import Call
from jaato.tools.files.told import summed


def files_changed(journal: Journal, call: Call) -> list[FilesChanged]:
    """What a call has changed since it was asked last, to be recorded at once; none where nothing was."""
    taken = call.changed[:]
    if not taken:
        return []
    del call.changed[: len(taken)]  # a worker may add more meanwhile
    files, more = summed(taken)
    if not files and not more:
        return []
    call_id = "" if call.door == "user" else call.id
    return [FilesChanged(**journal.head(), files=files, call_id=call_id, more=more)]
