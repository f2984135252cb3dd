"""The report of a conformance check: findings, each with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from jaato.settings.budgets import format_count

Grade = Literal["error", "advice"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or could be better: which rule, about what, and what to do."""

    grade: Grade
    rule: str
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.grade:<6}  {self.rule:<11}  {self.about}: {self.text}"


@dataclass(slots=True)
class Report:
    """All findings about one plugin; it passes when none of them is an error."""

    name: str
    tools: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    """The tools that were called; only those that read, or whose arguments were given."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; advice does not count."""
        return not self.errors

    @property
    def errors(self) -> list[Finding]:
        """What is wrong."""
        return [finding for finding in self.findings if finding.grade == "error"]

    def error(self, rule: str, about: str, text: str) -> None:
        """Note something that is wrong."""
        self._add(Finding("error", rule, about, text))

    def advise(self, rule: str, about: str, text: str) -> None:
        """Note something that could be better."""
        self._add(Finding("advice", rule, about, text))

    def _add(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)

    def document(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {
            "name": self.name,
            "ok": self.ok,
            "tools": self.tools,
            "called": self.called,
            "findings": [
                {"grade": one.grade, "rule": one.rule, "about": one.about, "text": one.text}
                for one in self.findings
            ],
        }

    def __str__(self) -> str:
        lines = [str(finding) for finding in sorted(self.findings, key=lambda one: one.grade != "error")]
        verdict = "passes" if self.ok else f"fails: {len(self.errors)} to correct"
        tools = format_count(len(self.tools), "tool")
        return "\n".join([*lines, f"{self.name}: {tools}, {len(self.called)} called; {verdict}"])
