"""Redacts secrets in events, results and blobs; ids and other structural fields are never changed."""

from __future__ import annotations

import codecs
import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar, get_args, get_type_hints

import msgspec

from jaato.abc.store import Damaged
from jaato.protocol.events import Event
from jaato.protocol.messages import Thinking, ToolCall, ToolResult
from jaato.tools.redaction.redactor import Redactor, StreamRedactor

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)
CHUNK_BYTES = 1 << 20
HEAD_BYTES = 8192

STRUCTURAL = frozenset(
    (
        "session_id agent_id parent_agent_id seq timestamp id question_id call_id turn_id task_id plan_id grant_id "
        "message_id provider_id continuation_id digest before dropped note blob handle opaque mime_type workspace "
        "type status role source mode code decision method scope effect access tool plugin provider model "
        "model_provider model_name models tools core_tools disabled jaato_version options deadline expires "
        "change created_at finish_reason default strategy dialect level once limit_source pin_id kind sha256"
    ).split()
)
"""Structural fields: ids, sequence numbers, enumerations. They are never redacted."""
NAMES = (ToolCall, ToolResult)
"""Structs whose `name` is that of a tool."""
PLAIN = (int, float, bool, int | None, float | None)
NUMBERS = frozenset((int, float, bool))
Reader = tuple[int, Callable[[Any], Any]]
READERS: dict[type, Reader] = {}
MOST_VALUES = 100_000
"""Above this many values they are checked one by one."""


@functools.cache
def free_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a struct that may hold free text."""
    hints = get_type_hints(kind)
    kept = STRUCTURAL | {"name"} if kind in NAMES else STRUCTURAL
    free = [name for name in kind.__struct_fields__ if name not in kept and hints[name] not in PLAIN]
    return tuple(name for name in free if not all(map(has_no_text, get_args(hints[name]) or (hints[name],))))


def has_no_text(hint: Any) -> bool:
    """Whether values of this type hold no text: numbers, and structs of nothing else."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return not free_fields(hint)
    return hint in (*PLAIN, type(None))


def redact_events(events: tuple[Event, ...], secrets: Redactor) -> tuple[Event, ...]:
    """Redact events; those without a secret are returned as the same objects."""
    if not secrets.active or not events:
        return events
    return tuple([redact_event(event, secrets) for event in events])


def redact_event(event: Event, secrets: Redactor) -> Event:
    """Redact an event; without a secret the same object is returned."""
    if not secrets.active:
        return event
    clean = secrets.clean
    texts = texts_of(event, clean)
    if texts is not None and (not texts or secrets.is_clean(texts, clean)):
        return event
    return redact_struct(event, secrets)


def make_reader(kind: type) -> Reader | None:
    """The number of fields of a struct that may hold free text, and a getter: of one value, or of a tuple of several.
    None for what is no struct."""
    if not issubclass(kind, msgspec.Struct):
        return None
    names = tuple(text_paths(kind))
    READERS[kind] = found = len(names), operator.attrgetter(*names) if names else type
    return found


def text_paths(kind: type[msgspec.Struct]) -> Iterator[str]:
    """The paths of the fields that may hold free text, including nested structs that are never None."""
    hints = get_type_hints(kind)
    for name in free_fields(kind):
        hint = hints[name]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from (f"{name}.{path}" for path in text_paths(hint))
        else:
            yield name


def texts_of(struct: msgspec.Struct, clean: set[str]) -> set[str] | None:
    """What may hold a secret in a struct, of the texts that `redact_struct` looks at: those that are not known to be clean.
    None where something is neither plain data nor a struct, or there is too much. It makes nothing and calls little: most
    events hold no secret."""
    texts: set[Any] = set()
    left: list[Any] = [struct]
    for value in left:  # which grows
        kind = value.__class__
        if kind is str:
            texts.add(value)
        elif kind is dict:
            texts.update(value)
            try:
                texts.update(
                    value.values()
                )  # at once, where nothing has parts; what is no text is sorted out below
            except TypeError:
                left += value.values()
                if len(left) > MOST_VALUES:
                    return None
        elif kind is list or kind is tuple:
            left += value
            if len(left) > MOST_VALUES:
                return None
        elif value is None or kind in NUMBERS:
            continue
        elif (fields := READERS.get(kind) or make_reader(kind)) is not None:
            count, read = fields
            if count == 1:
                left.append(read(value))
            elif count:
                left += read(value)
        else:
            return None
    texts.discard(None)
    new: set[Any] = texts - clean
    others = [one for one in new if one.__class__ is not str]
    if others:
        new.difference_update(others)
        if not NUMBERS.issuperset(map(type, others)):
            return None
    return new


def redact_log(records: Iterable[Event | Damaged], secrets: Redactor) -> Iterator[Event | Damaged]:
    """Redact a stored log, which may have been written under other settings."""
    return (redact_struct(record, secrets) if secrets.active else record for record in records)


def redact_struct(struct: AnyStruct, secrets: Redactor) -> AnyStruct:
    """Redact a struct and those nested in it; signed thinking blocks are left unchanged."""
    kind = type(struct)
    changes: dict[str, Any] | None = None
    for name in free_fields(kind):
        before = getattr(struct, name)
        if before is None:
            continue
        if before.__class__ is str:
            after: Any = secrets.mask(before)
        elif before.__class__ is list:
            after = redact_list(before, secrets)
        elif isinstance(before, msgspec.Struct):
            after = redact_struct(before, secrets)
        elif before.__class__ is dict:
            after = redact_dict(before, secrets)
        else:
            after = secrets.mask_data(before)
        if after is not before:
            changes = {**(changes or {}), name: after}
    if changes is None or (kind is Thinking and getattr(struct, "opaque", None) is not None):
        return struct
    return msgspec.structs.replace(struct, **changes)


def redact_list(values: list[Any], secrets: Redactor) -> list[Any]:
    """The parts of a message, the steps of a plan, plain data; the same list where nothing is masked."""
    if not values or not isinstance(values[0], msgspec.Struct):
        return values and secrets.mask_data(values)
    items = [redact_struct(item, secrets) for item in values]
    return items if any(map(operator.is_not, items, values)) else values


def redact_dict(values: dict[Any, Any], secrets: Redactor) -> Any:
    """Plain data, or structs by their ids; the same where nothing is masked."""
    if not values or not isinstance(next(iter(values.values())), msgspec.Struct):
        return secrets.mask_data(values)
    items = {key: redact_struct(item, secrets) for key, item in values.items()}
    return items if any(map(operator.is_not, items.values(), values.values())) else values


# --- blobs -----------------------------------------------------------------------------------------------------------


def redact_bytes(data: bytes, secrets: Redactor) -> bytes:
    """Redact the bytes of a text; binary data is returned unchanged."""
    if not secrets.active or b"\0" in data[:HEAD_BYTES]:
        return data
    text = data.decode("utf-8", "surrogateescape")
    masked = secrets.mask(text)
    return data if masked is text else masked.encode("utf-8", "surrogateescape")


@contextmanager
def redact_file(path: Path, secrets: Redactor) -> Iterator[Path]:
    """The file, or for a text with secrets a redacted temporary copy. Uses bounded memory."""
    if not secrets.active or path.is_symlink() or not path.is_file():
        yield path  # the store says what is wrong with it
        return
    with path.open("rb") as file:
        if b"\0" in file.read(HEAD_BYTES) or not has_secret(file, secrets):
            yield path
            return
        import tempfile  # as few blobs hold a secret

        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".masked-") as copy:
            file.seek(0)
            redact_stream(file, copy, secrets.stream())
            copy.flush()
            yield Path(copy.name)


def has_secret(file: IO[bytes], secrets: Redactor) -> bool:
    """Whether any part of a file may hold a secret."""
    file.seek(0)
    before = ""
    while chunk := file.read(CHUNK_BYTES):
        text = before + chunk.decode("utf-8", "surrogateescape")
        if secrets.may_hold_secret(text):
            return True
        before = text[-secrets.longest :]
    return False


def redact_stream(file: IO[bytes], copy: IO[bytes], stream: StreamRedactor) -> None:
    """Copy a text piece by piece through a stream; bytes that are no UTF-8 stay what they are."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while chunk := file.read(CHUNK_BYTES):
        copy.write(stream.feed(decoder.decode(chunk)).encode("utf-8", "surrogateescape"))
    last = stream.feed(decoder.decode(b"", final=True)) + stream.end()
    copy.write(last.encode("utf-8", "surrogateescape"))
