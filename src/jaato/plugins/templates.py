"""The plugin `template`: templates of the workspace and the prompt, rendered to files."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta

from jaato.abc.plugin import Enrichment, Host, Plugin, PromptEnrichmentResult
from jaato.errors import InvalidArguments, ToolError
from jaato.protocol.specs import FileChange
from jaato.tools.call import Call, replace_surrogates
from jaato.tools.filesystem.errors import FileMissing, PathRefused
from jaato.tools.filesystem.private_directory import PrivateDirectory, SourceDirectory
from jaato.tools.host_services import roots_of, source_directories
from jaato.tools.invisible_text import escape_invisible, one_line
from jaato.tools.markdown import parts_of
from jaato.tools.processes.sandbox_process import ResourceLimits, run_in_sandbox_process
from jaato.tools.tool import tool

MARKED = re.compile(r"\{\{[^{}\n]{1,500}\}\}|\{%[^{}\n]{1,500}%\}")
UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
SUFFIXES = dict(
    pair.split(":")
    for pair in (
        "python:py javascript:js typescript:ts markdown:md rust:rs ruby:rb shell:sh bash:sh jinja:j2 jinja2:j2 csharp:cs "
        "kotlin:kt text:txt"
    ).split()
)
"""The file suffix by the language of a code block."""
MAX_TEMPLATES = 50
NAME = re.compile(r"(?:extracted/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
PLACE = (".jaato", "templates")
EXTRACTED = "extracted"
MAX_TEMPLATE_BYTES = 256 << 10
MEMORY = "memory"
BOUNDS = ResourceLimits(10.0, 512 << 20, 1 << 20, "Simplify the template or fill in less at a time.")
MAX_VARIABLES_CHARS = 2 << 20
MAX_DOCUMENT_BYTES = 2 << 20
MAX_ROWS = 500


def extract_templates(document: str, path: str) -> list[tuple[str, str]]:
    """The templates embedded in a document as (file name, text), named after it and numbered from 1."""
    stem = UNSAFE.sub("-", PurePosixPath(path).stem).strip("-")[:60] or "document"
    marked = [(language, text) for language, text in parts_of(document).blocks if MARKED.search(text)]
    return [
        (f"{stem}-{number}.{file_suffix(language)}", text)
        for number, (language, text) in enumerate(marked[:MAX_TEMPLATES], 1)
    ]


def file_suffix(language: str) -> str:
    """The ending of a file in this language."""
    known = SUFFIXES.get(language)
    return known or (language if re.fullmatch(r"[a-z0-9]{1,10}", language) else "txt")


class TemplateMissing(ToolError):
    """No template has this name."""

    code = "template_not_found"


class TemplateTaken(ToolError):
    """A template of this name is there already, or belongs to the user."""

    code = "template_exists"


class TemplateRow(NamedTuple):
    """A template in the list: `source` is workspace, extracted or user."""

    name: str
    source: str


class Template(NamedTuple):
    """A template with its text."""

    name: str
    source: str
    text: str


class TemplateStore:
    """The templates that can be used. Raises `ToolError`s."""

    def __init__(self, places: list[SourceDirectory]) -> None:
        *users, own = places
        self.folders = {"workspace": own.folder, EXTRACTED: PrivateDirectory(own.root, *own.parts, EXTRACTED)}
        self.folders |= {place.owner: place.folder for place in users}
        self.problems: list[str] = []
        """What was wrong with folders the last time they were listed."""

    def rows(self) -> list[TemplateRow]:
        """Every template; a user's that the workspace has under the same name is not shown."""
        found: dict[str, TemplateRow] = {}
        self.problems.clear()
        for source, folder in self.folders.items():
            try:
                names = folder.names()
            except ToolError as error:  # one folder that cannot be read hides no other
                self.problems.append(one_line(str(error), 500))
                continue
            for name in names:
                if NAME.fullmatch(name):
                    full = f"{EXTRACTED}/{name}" if source == EXTRACTED else name
                    found.setdefault(full, TemplateRow(full, source))
        return list(found.values())

    def find(self, name: str) -> Template:
        """The template of this name, with or without what follows its first dot. Raises `TemplateMissing`."""
        rows = {row.name: row for row in self.rows()}
        row = rows.get(name)
        if row is None:
            stems = [
                row for row in rows.values() if name in (base_name(row.name), row.name.rpartition(".")[0])
            ]
            if len(stems) != 1:
                raise TemplateMissing(missing_error(name, [row.name for row in stems] or sorted(rows)))
            row = stems[0]
        data = self.folders[row.source].read(row.name.rpartition("/")[2], MAX_TEMPLATE_BYTES)
        if data is None:
            raise TemplateMissing(missing_error(name, []))
        try:
            return Template(row.name, row.source, data.decode())
        except UnicodeDecodeError:
            raise TemplateMissing(f"The template {row.name!r} is no UTF-8 text. Replace it.") from None

    def has(self, name: str, text: str) -> bool:
        """Whether a template of the workspace is just this text already."""
        _, folder, file = self._place(name)
        try:
            return folder.read(file, MAX_TEMPLATE_BYTES) == text.encode("utf-8", "replace")
        except ToolError:
            return False

    def write(self, name: str, text: str, *, overwrite: bool) -> FileChange:
        """Keep a template in the workspace; what became of its file. Raises `TemplateTaken`."""
        source, folder, file = self._place(name)
        data = text.encode("utf-8", "replace")
        if len(data) > MAX_TEMPLATE_BYTES:
            raise ToolError(
                f"The template has {len(data):,} bytes; at most {MAX_TEMPLATE_BYTES:,} are possible."
            )
        with folder.lock():
            known = folder.stat(file) is not None
            if known and not overwrite:
                raise TemplateTaken(f"The template {name!r} exists. Give overwrite=true or another name.")
            folder.write(file, data)
        return FileChange(display_path(source, file), "modified" if known else "created")

    def remove(self, name: str) -> FileChange:
        """Delete a template of the workspace; what became of its file. Raises `TemplateMissing`, and `TemplateTaken`
        for the user's own."""
        row = next((row for row in self.rows() if row.name == name), None)
        if row is None:
            raise TemplateMissing(missing_error(name, [row.name for row in self.rows()]))
        if row.source == "user":
            raise TemplateTaken(
                f"The template {name!r} is the user's own, for every workspace; ask them to remove it."
            )
        file = name.rpartition("/")[2]
        self.folders[row.source].remove(file)
        return FileChange(display_path(row.source, file), "deleted")

    def _place(self, name: str) -> tuple[str, PrivateDirectory, str]:
        """The folder and file a name stands for. Raises `ToolError` for what is no name."""
        if not NAME.fullmatch(name) or name == EXTRACTED:
            raise ToolError(
                f"{name[:100]!r} is no template name. Use letters, digits, '.', '_' and '-', as in 'report.md'."
            )
        source = EXTRACTED if name.startswith(f"{EXTRACTED}/") else "workspace"
        return source, self.folders[source], name.rpartition("/")[2]


def display_path(source: str, file: str) -> str:
    """The name of a template's file, as seen from the workspace."""
    return "/".join((*PLACE, *((EXTRACTED,) if source == EXTRACTED else ()), file))


def base_name(name: str) -> str:
    """A name without what follows its first dot."""
    return name.partition(".")[0]


def missing_error(name: str, known: list[str]) -> str:
    """The message that there is no such template, with those there are."""
    there = f"There are: {', '.join(known[:20])}." if known else "create_template makes one."
    return f"There is no template {name[:100]!r}. {there}"


Name = Annotated[str, Meta(min_length=1, max_length=120)]
Content = Annotated[str, Meta(max_length=MAX_TEMPLATE_BYTES)]


class TemplatesPlugin(Plugin):
    """Texts with places to fill in, of this workspace and of the user."""

    name: ClassVar[str] = "template"
    enrichment: ClassVar[Enrichment] = Enrichment(40, r"(?s)\A(?>.*?(?:```|~~~)).*(?:\{\{|\{%)")

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._roots = roots_of(host)

    @property
    def store(self) -> TemplateStore:
        """The templates as they are now."""
        return TemplateStore(source_directories(self.host, ("templates",), PLACE))

    @tool(category=MEMORY, access="read", aliases={"listAvailableTemplates": {}})
    def list_templates(self) -> dict[str, Any]:
        """List the templates there are for files, reports and prompts. Use it before writing something that follows a pattern.
        Returns names and where each is from (workspace, extracted, user)."""
        store = self.store
        rows = store.rows()
        result: dict[str, Any] = {"templates": [row._asdict() for row in rows[:MAX_ROWS]], "total": len(rows)}
        if store.problems:
            result["problems"] = store.problems
        return result if rows else {**result, "note": "There is no template yet; create_template makes one."}

    @tool(category=MEMORY, access="read")
    def get_template(self, name: Name, *, call: Call) -> dict[str, Any]:
        """Read one template. Returns its text and the variables renderTemplate needs."""
        found = self.store.find(name)
        result = {"name": found.name, "source": found.source, "content": escape_invisible(found.text)}
        try:
            return {**result, **self._work(found.name, found.text, None, call)}
        except ToolError as error:
            return {**result, "problem": str(error)}

    @tool(category=MEMORY, access="write")
    def create_template(
        self,
        name: Annotated[Name | None, "file name, such as report.md"] = None,
        content: Annotated[Content | None, "Jinja: {{ variable }}, {% for … %}"] = None,
        document: Annotated[str | None, "instead: Markdown file whose code blocks become templates"] = None,
        overwrite: bool = False,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Keep a text with {{ variables }} as a template for this workspace, or extract those in a document.
        Returns where it is and its variables."""
        if document is not None and name is None and content is None:
            return self._extract(document, overwrite, call)
        if name is None or content is None or document is not None:
            raise InvalidArguments("Give name and content, or document alone.")
        text = replace_surrogates(content)
        result = self._work(name, text, None, call)
        written = self.store.write(name, text, overwrite=overwrite)
        call.changed.append(written)
        return {"name": name, "path": written.path, **result}

    @tool(category=MEMORY, access="write")
    def delete_template(self, name: Name, *, call: Call) -> dict[str, Any]:
        """Delete a template of this workspace by its whole name; the user's own are not deleted."""
        call.changed.append(self.store.remove(name))
        return {"deleted": name}

    @tool(
        category=MEMORY,
        access="write",
        aliases={"writeFileFromTemplate": {"template_name": "template", "path": "output_path"}},
        examples=({"template": "Dear {{name}}", "variables": {"name": "Ann"}, "output_path": "letter.txt"},),
    )
    def renderTemplate(
        self,
        template: Annotated[Content, "name, or the text itself"],
        variables: dict[str, Any] | None = None,
        output_path: Annotated[str | None, "file to write"] = None,
        overwrite: bool = False,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Fill in a template with variables and write the result to a file. Without output_path the text is returned; a
        missing variable is an error naming those needed."""
        if any(mark in template for mark in ("{{", "{%", "{#", "\n")):
            name, source = "the template", replace_surrogates(template)
        else:
            found = self.store.find(template)
            name, source = found.name, found.text
        text = self._work(name, source, variables or {}, call)["text"]
        if output_path is None:
            return {"text": text}
        text = replace_surrogates(text)
        replaced = self._write(output_path, text, overwrite, call)
        return {"path": output_path, "size_bytes": len(text.encode()), "replaced": replaced}

    @tool(category=MEMORY, access="read")
    def listExtractedTemplates(self) -> dict[str, Any]:
        """List the templates that were extracted from documents, for renderTemplate. create_template(document=…) extracts
        more."""
        names = [row.name for row in self.store.rows() if row.source == EXTRACTED]
        return {"templates": names[:MAX_ROWS], "total": len(names)}

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt and where the templates in its code blocks are kept from now on, each under a name of its text."""
        store, kept = self.store, dict[str, str]()
        for name, text in extract_templates(prompt, "prompt"):
            stem = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
            kept[f"{EXTRACTED}/prompt-{stem}.{name.rpartition('.')[2]}"] = text
        for name, text in kept.items():
            if not store.has(name, text):
                store.write(name, text, overwrite=True)
        if not kept:
            return PromptEnrichmentResult(prompt)
        note = f"[Templates in this prompt are kept as {', '.join(kept)}; renderTemplate fills one in.]"
        notes = {"extracted": list(kept), "activates": ["renderTemplate"]}
        return PromptEnrichmentResult(f"{prompt}\n\n{note}", notes)

    def _write(self, path: str, text: str, overwrite: bool, call: Call) -> bool:
        """Write a file as the file tools do, so that it can be undone; whether another was replaced."""
        try:
            replaced = stat.S_ISREG(self._roots.stat(path).st_mode)
        except FileMissing:
            replaced = False
        if replaced and not overwrite:
            raise PathRefused(f"{path!r} exists already. Give overwrite=true to replace it, or another path.")
        found = self.host.service("catalog").find("multiFileEdit")
        if found is None:
            raise ToolError("Files are written by the plugin file_edit, which is not exposed here.")
        found.tool.run({"edits": [{"path": path, "new_content": text}]}, call)
        return replaced

    def _extract(self, document: str, overwrite: bool, call: Call) -> dict[str, Any]:
        """Keep the templates embedded in a document."""
        with self._roots.open_file(document) as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ToolError(
                f"{document!r} has more than {MAX_DOCUMENT_BYTES >> 20} MB. Name a smaller document."
            )
        found = extract_templates(data.decode("utf-8", "replace"), document)
        if not found:
            raise ToolError(
                f"{document!r} has no fenced code block with {{{{ variables }}}}. Give name and content."
            )
        store = self.store
        kept: list[str] = []
        for name, text in found:
            call.changed.append(store.write(f"{EXTRACTED}/{name}", text, overwrite=overwrite))
            kept.append(f"{EXTRACTED}/{name}")
        return {"templates": kept}

    def _work(self, name: str, source: str, variables: dict[str, Any] | None, call: Call) -> dict[str, Any]:
        """Run the engine in a sandbox process."""
        if variables is not None and len(json.dumps(variables)) > MAX_VARIABLES_CHARS:
            raise ToolError(
                f"The variables are larger than {MAX_VARIABLES_CHARS >> 20} MB. Fill in less at a time."
            )
        request = {"name": name, "template": source, "variables": variables}
        result: dict[str, Any] = run_in_sandbox_process(
            "jaato.plugins.template_engine:work", request, BOUNDS, call.token
        )
        return result
