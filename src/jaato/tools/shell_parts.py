"""What a shell line consists of, as values: words are read elsewhere, here are redirections, simple commands
and the line."""

from __future__ import annotations

from dataclasses import dataclass

from jaato.tools.shell_words import Word


@dataclass(frozen=True, slots=True)
class Redirect:
    """One redirection; `target` is the file or descriptor."""

    text: str
    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        """Whether it may create or change a file."""
        return ">" in self.operator and not self.harmless

    @property
    def harmless(self) -> bool:
        """Whether it only throws output away or joins two descriptors."""
        aim = self.target.literal
        if aim == "/dev/null":
            return True
        return self.operator in (">&", "<&") and aim in ("0", "1", "2")


@dataclass(frozen=True, slots=True)
class Part:
    """A simple command. `doubts` says why no rule may cover it as it stands; `pipeline` groups parts
    joined by |."""

    text: str
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    doubts: tuple[str, ...] = ()
    pipeline: int = 0
    tokens: tuple[str, ...] = ()

    @property
    def program(self) -> str | None:
        """The name of the program, None when bash would compute it or there is none."""
        return self.words[0].literal if self.words else None


@dataclass(frozen=True, slots=True)
class Analysis:
    """A shell line taken apart.

    `unknown` lists what was not understood: anything there means asking, whatever was granted.
    `constructs` lists
    control structures, which only a grant for the whole tool covers.
    """

    command: str
    parts: tuple[Part, ...] = ()
    operators: tuple[str, ...] = ()
    substitutions: int = 0
    heredocs: int = 0
    functions: tuple[str, ...] = ()
    background: bool = False
    constructs: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def assignments(self) -> tuple[tuple[str, Word], ...]:
        """Every variable the line sets."""
        return tuple(pair for part in self.parts for pair in part.assignments)

    @property
    def redirects(self) -> tuple[Redirect, ...]:
        """Every redirection."""
        return tuple(one for part in self.parts for one in part.redirects)
