"""The plugin `data`: tools for SQLite databases, CSV files, and JSON, YAML and TOML documents."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from jaato.abc.plugin import Host, Plugin
from jaato.errors import InvalidArguments
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call
from jaato.tools.host_services import roots_of
from jaato.tools.processes.sandbox_process import (
    NOWHERE,
    Mounts,
    ResourceLimits,
    WorkFailed,
    run_in_sandbox_process,
)
from jaato.tools.tool import tool

DATA = "data"
WORK = "jaato.plugins.data"
QUERY_S, CSV_S, JSON_S = 15.0, 120.0, 60.0
"""What a query, an expression or a schema may take; and that and reading the files."""
GRACE_S = 5.0
"""More than the query's own time, so that it ends in order before the process is ended."""
GB = 1 << 30
MAX_CSV_BYTES = 1 * GB
Tables = Annotated[dict[str, str], Meta(max_length=8)]
Parameters = list[Any] | dict[str, Any] | None
Rows = Annotated[int, Meta(ge=1, le=10_000)]
Delimiter = Literal[",", ";", "\t", "|"]
DocumentFormat = Literal["json", "jsonl", "yaml", "toml"]


class DataPlugin(Plugin):
    """Questions to data files; the work is done in a process of its own that ends with the call.

    The setting `timeout_s` bounds the time of every call.
    """

    name: ClassVar[str] = "data"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.roots = roots_of(host)
        limit = host.config.get("timeout_s")
        self.limit_s = float(limit) if isinstance(limit, int | float) and limit > 0 else None

    @tool(
        category=DATA,
        access="read",
        examples=(
            {
                "path": "shop.db",
                "sql": "SELECT name, price FROM items WHERE price > ? ORDER BY price",
                "params": [10],
            },
        ),
    )
    def sqlite_query(
        self,
        path: Annotated[str, "the database file"],
        sql: Annotated[
            str, Meta(min_length=1, max_length=1_000_000, description="one SELECT, WITH or EXPLAIN")
        ],
        params: Annotated[Parameters, "values for ? (a list) or :name (an object)"] = None,
        max_rows: Rows = 200,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Query a SQLite database with SQL, read-only: SELECT, count rows, join, aggregate. Use sqlite_schema first to see
        its tables. Returns columns and rows, and more=true when there are further ones."""
        order = {"sql": sql, "params": check_params(params), "max_rows": max_rows}
        return self._sqlite("query", path, order, call)

    @tool(category=DATA, access="write")
    def sqlite_execute(
        self,
        path: Annotated[str, "the database file"],
        sql: Annotated[
            str, Meta(min_length=1, max_length=1_000_000, description="statements, separated by ;")
        ],
        params: Annotated[Parameters, "values for ? (a list) or :name (an object), for one statement"] = None,
        create: Annotated[bool, "make the database when there is none"] = False,
        max_rows: Annotated[Rows, "of RETURNING"] = 200,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Change a SQLite database: INSERT, UPDATE, DELETE, CREATE, ALTER, DROP; add or edit records. All statements
        run in one transaction, all or none. Returns the number of changes."""
        order = {"sql": sql, "params": check_params(params), "max_rows": max_rows, "create": create}
        return self._sqlite("execute", path, order, call, write=True, create=create)

    @tool(category=DATA, access="read")
    def sqlite_schema(
        self,
        path: Annotated[str, "the database file"],
        table: Annotated[str | None, "only this table or view"] = None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Show what is in a SQLite database: its tables and views with columns, types, keys, indexes and row counts.
        Use it before sqlite_query."""
        return self._sqlite("schema", path, {"table": table}, call)

    @tool(
        category=DATA,
        access="read",
        examples=({"path": "sales.csv", "sql": "SELECT region, SUM(amount) FROM data GROUP BY region"},),
    )
    def csv_query(
        self,
        path: Annotated[str, "the CSV or TSV file; its table is data"],
        sql: Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1_000_000,
                description="one SELECT, such as SELECT count(*) FROM data",
            ),
        ],
        params: Annotated[Parameters, "values for ? (a list) or :name (an object)"] = None,
        more_tables: Annotated[Tables | None, "to join: table name to file"] = None,
        delimiter: Annotated[Delimiter | None, "found out when left out"] = None,
        header: Annotated[bool, "false: columns are column_1, column_2, …"] = True,
        max_rows: Rows = 200,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Run SQL (SQLite's) over CSV or TSV files: filter, group, aggregate, join. Types are detected, empty fields are
        NULL. See the columns with csv_describe first."""
        if more_tables and any(name.lower() == "data" for name in more_tables):
            raise InvalidArguments("data is the table of path. Give the files of more_tables other names.")
        order = {
            "sql": sql,
            "params": check_params(params),
            "max_rows": max_rows,
            "delimiter": delimiter,
            "header": header,
        }
        return self._csv("query", {"data": path, **(more_tables or {})}, order, call)

    @tool(category=DATA, access="read")
    def csv_describe(
        self,
        path: Annotated[str, "the CSV or TSV file"],
        delimiter: Annotated[Delimiter | None, "found out when left out"] = None,
        header: Annotated[bool, "false: columns are column_1, column_2, …"] = True,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Look into a CSV or TSV file of any size: columns with type, range, empty and distinct values, row count,
        delimiter, encoding, sample rows."""
        return self._csv("describe", {"data": path}, {"delimiter": delimiter, "header": header}, call)

    @tool(
        category=DATA, access="read", examples=({"path": "package.json", "expression": "keys(dependencies)"},)
    )
    def json_query(
        self,
        expression: Annotated[
            str,
            Meta(min_length=1, max_length=10_000, description="JMESPath, such as items[?ok].name or keys(@)"),
        ],
        path: Annotated[str | None, "a JSON, JSON Lines, YAML or TOML file"] = None,
        text: Annotated[str | None, "instead: the document itself"] = None,
        format: Annotated[DocumentFormat | None, "when the file's name does not say"] = None,  # noqa: A002 what it is
        each: Annotated[
            bool, "apply to each line of JSON Lines or item of a top-level array, one at a time"
        ] = False,
        max_items: Annotated[int, Meta(ge=1, le=10_000)] = 200,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Get a part of a JSON, JSON Lines, YAML or TOML document by a JMESPath expression: select, filter, count,
        reshape. each=true handles files of any size. Returns the result."""
        with self._document(path, text) as document:
            order = {
                "expression": expression,
                "document": document,
                "format": format,
                "each": each,
                "max_items": max_items,
            }
            return self._work("documents:query", order, call, JSON_S, [document["fd"]])

    @tool(category=DATA, access="read")
    def json_validate(
        self,
        path: Annotated[str | None, "the document: JSON, JSON Lines, YAML or TOML"] = None,
        text: Annotated[str | None, "instead: the document itself"] = None,
        schema_path: Annotated[str | None, "the JSON Schema's file"] = None,
        schema: Annotated[dict[str, Any] | None, "instead: the JSON Schema itself"] = None,
        format: Annotated[DocumentFormat | None, "when the file's name does not say"] = None,  # noqa: A002 what it is
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Check a JSON, YAML or TOML document against a JSON Schema. Returns whether it is valid, and every problem with
        its place."""
        import json

        given = None if schema is None else json.dumps(schema)
        with self._document(path, text) as document, self._document(schema_path, given, "schema") as against:
            order = {"document": document, "schema": against, "format": format}
            return self._work("documents:validate", order, call, JSON_S, [document["fd"], against["fd"]])

    def _sqlite(
        self,
        what: str,
        path: str,
        order: dict[str, Any],
        call: Call,
        *,
        write: bool = False,
        create: bool = False,
    ) -> dict[str, Any]:
        """Some work on a database: its directory is handed over, so that its side files are found there."""
        with self.roots.locate(path) as place:
            if write and self.roots.hides_control(path, place):
                raise WorkFailed(
                    f"{path!r} leads by a link to a protected file. Name it itself.", "path_refused"
                )
            info = place.info
            if (info is None and not create) or (info is not None and not stat.S_ISREG(info.st_mode)):
                os.close(self.roots.open_place(place, path))  # which says what is wrong
            if info is not None and write and info.st_nlink > 1:
                raise WorkFailed(f"{path!r} has several hard links, so it is not written.", "path_refused")
            size = (
                info.st_size if info is not None else 0
            )  # not opened here: closing it would drop this process's locks
            order |= {
                "identity": [info.st_dev, info.st_ino] if info is not None else None,
                "name": place.name,
                "size": size,
            }
            order |= {"time_s": self.limit_s or QUERY_S}
            room = size + 4 * GB if write else GB
            around = Mounts(directory=place.dir_fd)
            result = self._work(f"sqlite:{what}", order, call, QUERY_S, [], places=around, file_bytes=room)
            if write:
                change: Literal["created", "modified"] = "created" if info is None else "modified"
                call.changed.append(FileChange(self.roots.label(place), change))
            return result

    def _csv(self, what: str, paths: dict[str, str], order: dict[str, Any], call: Call) -> dict[str, Any]:
        """Some work on CSV files, handed over open."""
        with contextlib.ExitStack() as files:
            handed: dict[str, dict[str, Any]] = {}
            for name, path in paths.items():
                file = files.enter_context(self.roots.open_file(path))
                if file.seek(0, 2) > MAX_CSV_BYTES:
                    raise WorkFailed(
                        f"{path!r} is larger than 1 GB. Cut it first, for instance with head.", "too_large"
                    )
                file.seek(0)
                handed[name] = {"path": path, "fd": file.fileno()}
            order |= {"files": handed, "time_s": self.limit_s or CSV_S}
            return self._work(
                f"csv_tables:{what}", order, call, CSV_S, [one["fd"] for one in handed.values()], 3 * GB
            )

    @contextlib.contextmanager
    def _document(self, path: str | None, text: str | None, what: str = "text") -> Iterator[dict[str, Any]]:
        """A document to hand over: an open file or its text; exactly one is given."""
        if (path is None) == (text is None):
            names = "path or text" if what == "text" else "schema_path or schema"
            raise InvalidArguments(f"Give either {names}.")
        if path is None:
            yield {"path": None, "fd": None, "text": text}
            return
        with self.roots.open_file(path) as file:
            yield {"path": path, "fd": file.fileno(), "text": None}

    def _work(
        self, entry: str, order: dict[str, Any], call: Call, time_s: float, descriptors: list[int | None],
        memory_bytes: int = 2 * GB, file_bytes: int = GB, places: Mounts = NOWHERE,
    ) -> dict[str, Any]:  # fmt: skip
        """The work, apart."""
        advice = "Ask for less: fewer columns or rows, a smaller file, a narrower expression."
        order["query_s"] = query_s = self.limit_s or QUERY_S
        bounds = ResourceLimits((self.limit_s or time_s) + GRACE_S, memory_bytes, file_bytes, advice, query_s)
        handed = [one for one in descriptors if one is not None]
        result: dict[str, Any] = run_in_sandbox_process(
            f"{WORK}.{entry}", order, bounds, call.token, handed, places=places
        )
        return result


def check_params(params: Parameters) -> Parameters:
    """Values SQLite can take; raises `InvalidArguments` for lists and objects among them."""
    values = params.values() if isinstance(params, dict) else params or ()
    for value in values:
        if isinstance(value, list | dict):
            raise InvalidArguments("params are texts, numbers, true, false or null; give JSON as text.")
    return params
