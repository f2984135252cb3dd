"""The data tools in a session: found, activated, asked about, and their long results behind a handle."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import anyio
from tests.kit import call, calls, results, say, session

from jaato.protocol.messages import Text
from jaato.tools.permissions.gate import Policy


def test_a_model_finds_and_uses_them(tmp_path: Path) -> None:
    """A tool that was not shown is activated and called; reading is allowed, writing is not when nobody can be asked."""

    async def main() -> None:
        work = tmp_path / "work"
        work.mkdir()
        (work / "t.csv").write_text("a,b\n" + "".join(f"{n},{'x' * 50}\n" for n in range(1_000)))
        with sqlite3.connect(work / "s.db") as made:
            made.execute("CREATE TABLE t(a)")
        made.close()
        script = [
            call("get_tool_schemas", names=["csv_query", "sqlite_execute"]),
            calls(
                ("csv_query", {"path": "t.csv", "sql": "SELECT sum(a) AS s FROM data"}),
                ("csv_query", {"path": "t.csv", "sql": "SELECT * FROM data", "max_rows": 1_000}),
                ("sqlite_execute", {"path": "s.db", "sql": "DROP TABLE t"}),
            ),
            say("done"),
        ]
        async with session(tmp_path, script, plugins=("introspection", "data"), policy=Policy.of({})) as one:
            await one.post("add up a")
            total, whole, denied = results(one)[-3:]
        assert total.structured == {"columns": ["s"], "rows": [[499_500]], "row_count": 1}
        [text] = whole.content
        assert isinstance(text, Text)
        assert whole.handle is not None
        assert "readFile" in text.text
        assert not denied.ok
        assert denied.error is not None
        assert denied.error.code == "permission_denied"

    anyio.run(main)
