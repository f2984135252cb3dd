"""Parse a shell line with tree-sitter into simple commands, redirections and words; a second, simpler lexer must agree."""

from __future__ import annotations

import functools
import unicodedata
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from jaato.protocol.codec import is_unicode
from jaato.tools.shell.words import OPERATORS, RESERVED, Word, lex, read_word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


class Redirect(msgspec.Struct, frozen=True):
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


class Part(msgspec.Struct, frozen=True):
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


class Analysis(msgspec.Struct, frozen=True):
    """A parsed shell line.

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


MAX_PARTS = 200
MAX_DEPTH = 40

WORDS = frozenset(
    "word string raw_string ansi_c_string translated_string number concatenation simple_expansion expansion "
    "command_substitution process_substitution arithmetic_expansion brace_expression regex extglob_pattern "
    "test_operator special_variable_name variable_name $".split()
)
GROUPS = frozenset("program list subshell compound_statement".split())
STATEMENTS = frozenset(
    "command pipeline redirected_statement declaration_command unset_command variable_assignment comment "
    "ERROR".split()
)
CONSTRUCTS = {
    "function_definition": "defines a function",
    "if_statement": "uses if",
    "elif_clause": "uses if",
    "else_clause": "uses if",
    "while_statement": "uses a loop",
    "for_statement": "uses a loop",
    "c_style_for_statement": "uses a loop",
    "do_group": "uses a loop",
    "case_statement": "uses case",
    "case_item": "uses case",
    "test_command": "uses a test expression",
    "negated_command": "uses !",
}
SEPARATORS = frozenset(("&&", "||", "|", "|&", ";", "&", "\n", "(", ")", "{", "}"))


class SyntaxVisitor(msgspec.Struct):
    """One pass over the tree, collecting parts in the order they are written."""

    command: str
    parts: list[Part] = msgspec.field(default_factory=list)
    operators: list[str] = msgspec.field(default_factory=list)
    functions: list[str] = msgspec.field(default_factory=list)
    unknown: list[str] = msgspec.field(default_factory=list)
    substitutions: int = 0
    heredocs: int = 0
    background: bool = False
    constructs: list[str] = msgspec.field(default_factory=list)
    pipelines: int = 0
    piped: bool = False

    def result(self) -> Analysis:
        """Everything seen, as one value."""
        parts = self.parts[:MAX_PARTS]
        if self.background:
            parts = [replace(part, doubts=(*part.doubts, "runs in the background (&)")) for part in parts]
        return Analysis(
            self.command,
            tuple(parts),
            tuple(self.operators),
            self.substitutions,
            self.heredocs,
            tuple(self.functions),
            self.background,
            tuple(dict.fromkeys(self.constructs)),
            tuple(dict.fromkeys(self.unknown)),
        )

    def visit(self, node: Node, depth: int, doubts: tuple[str, ...]) -> None:
        """Look at one statement."""
        if depth > MAX_DEPTH or len(self.parts) > MAX_PARTS:
            self.unknown.append("the command is too deep or has too many parts")
            return
        if node.is_missing or node.type == "ERROR":
            self.unknown.append(f"cannot be parsed near {show(node)!r}")
            self.descend(node, depth, doubts)
            return
        match node.type:
            case kind if kind in GROUPS:
                if kind == "compound_statement":
                    self.constructs.append("uses { }")
                self.descend(node, depth, doubts)
            case "pipeline":
                self.descend(node, depth, doubts)
            case "command" | "declaration_command" | "unset_command" | "variable_assignment":
                self.simple(node, depth, doubts)
            case "redirected_statement":
                self.redirected(node, depth, doubts)
            case "comment":
                return
            case kind if kind in CONSTRUCTS:
                self.constructs.append(CONSTRUCTS[kind])
                if kind == "function_definition":
                    name = node.child_by_field_name("name")
                    self.functions.append(show(name) if name is not None else "?")
                self.descend(node, depth, (*doubts, CONSTRUCTS[kind]))
            case "command_substitution" | "process_substitution":
                self.substitutions += 1
                self.descend(node, depth, (*doubts, "runs inside a substitution"))
            case kind if not node.is_named:
                self.separator(kind)
            case kind:
                self.unknown.append(f"{kind.replace('_', ' ')} {show(node)!r}")
                self.descend(node, depth, doubts)

    def descend(self, node: Node, depth: int, doubts: tuple[str, ...]) -> None:
        """Look at everything inside; at the words of a construct only for the substitutions in them."""
        for child in node.children:
            if (
                node.type not in CONSTRUCTS
                or child.type in STATEMENTS
                or child.type in GROUPS | CONSTRUCTS.keys()
            ):
                self.visit(child, depth + 1, doubts)
            elif child.is_named:
                self.inside(child, depth + 1, doubts)

    def separator(self, kind: str) -> None:
        """An operator or punctuation between statements."""
        if kind in ("$(", "`", "<(", ">("):
            return
        if kind not in SEPARATORS:
            self.unknown.append(f"the word {kind!r}")
            return
        self.operators.append(kind)
        self.background = self.background or kind == "&"
        self.piped = kind in ("|", "|&")

    def inside(self, node: Node, depth: int, doubts: tuple[str, ...]) -> None:
        """Find the commands that are hidden inside a word."""
        if depth > MAX_DEPTH:
            self.unknown.append("the command is too deep or has too many parts")
        elif node.type in ("command_substitution", "process_substitution"):
            self.visit(node, depth, doubts)
        elif node.type == "ERROR" or node.is_missing:
            self.unknown.append(f"cannot be parsed near {show(node)!r}")
        else:
            for child in node.children:
                self.inside(child, depth + 1, doubts)

    def simple(self, node: Node, depth: int, doubts: tuple[str, ...]) -> None:
        """One simple command, declaration or bare assignment."""
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        tokens: list[str] = []
        own = list(doubts)
        place = len(self.parts)
        self.pipelines += not self.piped
        self.piped = False
        pipeline = self.pipelines
        children = [node] if node.type == "variable_assignment" else node.children
        for child in children:
            text = show_all(child)
            if child.type == "variable_assignment" and node.type != "declaration_command":
                name, _, value = text.partition("=")
                assignments.append((name.rstrip("+"), read_word(value)))
                tokens.append(text)
                self.inside(child, depth + 1, doubts)
            elif child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                self.redirect(child, depth, redirects, tokens, own)
            elif (
                child.type in WORDS
                or child.type in ("command_name", "variable_assignment")
                or not child.is_named
            ):
                words.append(read_word(text))
                tokens.append(text)
                self.inside(child, depth + 1, doubts)
            else:
                self.unknown.append(f"{child.type.replace('_', ' ')} {show(child)!r}")
        if words and words[0].text in RESERVED:
            self.unknown.append(f"the word {words[0].text!r}")
        whole = show_all(node)
        part = Part(
            whole, tuple(words), tuple(redirects), tuple(assignments), tuple(own), pipeline, tuple(tokens)
        )
        self.parts.insert(place, part)

    def redirected(self, node: Node, depth: int, doubts: tuple[str, ...]) -> None:
        """A statement with redirections behind it: they belong to its last simple command."""
        redirects: list[Redirect] = []
        tokens: list[str] = []
        own: list[str] = []
        last = None
        for child in node.children:
            if child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                self.redirect(child, depth, redirects, tokens, own)
            else:
                before = len(self.parts)
                self.visit(child, depth + 1, doubts)
                last = len(self.parts) - 1 if len(self.parts) > before and not is_grouped(child) else None
        extra = Part("", (), tuple(redirects), (), (*doubts, *own), self.pipelines, tuple(tokens))
        if last is None:
            self.parts.append(replace(extra, text=" ".join(tokens)))
            return
        old = self.parts[last]
        self.parts[last] = replace(
            old,
            text=" ".join((old.text, *tokens)),
            redirects=old.redirects + extra.redirects,
            doubts=old.doubts + tuple(own),
            tokens=old.tokens + extra.tokens,
        )

    def redirect(
        self, node: Node, depth: int, redirects: list[Redirect], tokens: list[str], doubts: list[str]
    ) -> None:
        """One redirection; a here-document may carry the rest of the line inside."""
        if node.type != "file_redirect":
            self.heredocs += 1
            doubts.append("is fed a here-document")
            for child in node.children:
                if child.type in ("pipeline", "command", "list", "redirected_statement", "subshell"):
                    self.visit(child, depth + 1, tuple(doubts))
                elif child.type == "file_redirect":
                    self.redirect(child, depth, redirects, tokens, doubts)
                else:
                    self.inside(child, depth + 1, tuple(doubts))
            return
        descriptor = "".join(show(child) for child in node.children if child.type == "file_descriptor")
        operator = "".join(show(child) for child in node.children if not child.is_named)
        targets = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
        if len(targets) != 1:
            self.unknown.append(f"the redirection {show(node)!r}")
        for child in targets:
            text = show_all(child)
            redirects.append(Redirect(descriptor + operator + text, operator, read_word(text)))
            tokens.append(descriptor + operator + text)
            self.inside(child, depth + 1, tuple(doubts))


def is_grouped(node: Node) -> bool:
    """Whether a redirection behind this statement belongs to all of it."""
    return node.type in ("subshell", "compound_statement") or node.type in CONSTRUCTS


def show_all(node: Node) -> str:
    """The source of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def show(node: Node) -> str:
    """The source of a node, short enough for a message."""
    return show_all(node)[:60]


MAX_CHARS = 16_384
CONTINUATION = "\\\n"
MAX_BRACKETS = 100
"""The deepest nesting of brackets that is parsed: the parser is slow on unclosed ones."""


@functools.cache
def parser() -> Parser:
    """The one parser, made at the first shell command."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def unreadable(command: str) -> str | None:
    """Why a command is not even parsed: too long, not text, or with characters that shells and parsers
    read differently."""
    if len(command) > MAX_CHARS:
        return f"is {len(command):,} characters long, more than the {MAX_CHARS:,} that are looked at"
    if not is_unicode(command):
        return "is not valid UTF-8"
    for char in set(command):
        if char in " \t\n" or " " < char <= "~":
            continue
        if (
            ord(char) < 0xA0
            or char.isspace()
            or unicodedata.category(char) in ("Cf", "Cc", "Zs", "Zl", "Zp", "Cn")
        ):
            return f"contains the character U+{ord(char):04X}"
    depth = 0
    for char in command:
        depth += (char in "([{") - (char in ")]}" and depth > 0)
        if depth > MAX_BRACKETS:
            return f"nests more than {MAX_BRACKETS} brackets"
    return None


@functools.lru_cache(maxsize=256)
def parse_command(command: str) -> Analysis:
    """Parse a shell command; bounded in time for any input, never raises."""
    reason = unreadable(command)
    if reason is not None:
        return Analysis(command[:200], unknown=(f"the command {reason}",))
    if not command.strip():
        return Analysis(command, unknown=("the command is empty",))
    root = parser().parse(command.encode()).root_node
    walk = SyntaxVisitor(command)
    walk.visit(root, 0, ())
    if CONTINUATION in command:
        walk.constructs.append("continues a line with a backslash")
    found = walk.result()
    if found.unknown or found.constructs or any(is_dynamic(part) for part in found.parts):
        return found  # no rule for a part covers it, so the second reading has nothing to add
    if not is_confirmed_by_lexer(found, command):
        return replace(found, unknown=("two readings of the command disagree",))
    return found


def is_dynamic(part: Part) -> bool:
    """Whether a part holds something that bash computes, so that it is never covered."""
    return bool(part.doubts) or any(word.value is None for word in part.words)


def is_confirmed_by_lexer(found: Analysis, command: str) -> bool:
    """Whether the second, simpler reading sees the same commands in the same order with the same
    operators."""
    tokens = lex(command)
    if tokens is None:
        return False
    commands: list[list[str]] = [[]]
    operators = []
    for token in tokens:
        if token in OPERATORS:
            commands.append([])
            operators.append(token)
        else:
            commands[-1].append(token)
    seen = [list(part.tokens) for part in found.parts]
    separators = [one for one in operators if one != "\n"]
    return [one for one in commands if one] == seen and separators == [
        o for o in found.operators if o != "\n"
    ]
