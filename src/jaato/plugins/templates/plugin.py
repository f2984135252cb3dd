"""The six template tools."""

from __future__ import annotations

import hashlib
import json
import stat
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from jaato.abc.plugin import Enrichment, Host, Plugin, PromptEnrichmentResult
from jaato.errors import InvalidArguments, ToolError
from jaato.plugins.templates.store import EXTRACTED, MAX_TEMPLATE_BYTES, Shelf, templates_in
from jaato.tools.apart import Bounds, work_apart
from jaato.tools.call import Call, clean
from jaato.tools.file_errors import FileMissing, PathRefused
from jaato.tools.reach import roots_of
from jaato.tools.tool import tool
from jaato.tools.unseen import spelt_out

MEMORY = "memory"
BOUNDS = Bounds(10.0, 512 << 20, 1 << 20, "Simplify the template or fill in less at a time.")
MAX_VARIABLES_CHARS = 2 << 20
MAX_DOCUMENT_BYTES = 2 << 20
MAX_ROWS = 500
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
    def shelf(self) -> Shelf:
        """The templates as they are now."""
        try:
            config_dir = self.host.service("settings").config_dir
        except KeyError:
            config_dir = None
        return Shelf(self._roots.workspace, config_dir)

    @tool(category=MEMORY, access="read", aliases={"listAvailableTemplates": {}})
    def list_templates(self) -> dict[str, Any]:
        """List the templates there are for files, reports and prompts. Use it before writing something that follows a pattern.
        Returns names and where each is from (workspace, extracted, user)."""
        shelf = self.shelf
        rows = shelf.rows()
        said: dict[str, Any] = {"templates": [row._asdict() for row in rows[:MAX_ROWS]], "total": len(rows)}
        if shelf.problems:
            said["problems"] = shelf.problems
        return said if rows else {**said, "note": "There is no template yet; create_template makes one."}

    @tool(category=MEMORY, access="read")
    def get_template(self, name: Name, *, call: Call) -> dict[str, Any]:
        """Read one template. Returns its text and the variables renderTemplate needs."""
        found = self.shelf.find(name)
        said = {"name": found.name, "source": found.source, "content": spelt_out(found.text)}
        try:
            return {**said, **self._work(found.name, found.text, None, call)}
        except ToolError as error:
            return {**said, "problem": str(error)}

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
        text = clean(content)
        said = self._work(name, text, None, call)
        written = self.shelf.write(name, text, overwrite=overwrite)
        call.changed.append(written)
        return {"name": name, "path": written.path, **said}

    @tool(category=MEMORY, access="write")
    def delete_template(self, name: Name, *, call: Call) -> dict[str, Any]:
        """Delete a template of this workspace by its whole name; the user's own are not deleted."""
        call.changed.append(self.shelf.remove(name))
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
            name, source = "the template", clean(template)
        else:
            found = self.shelf.find(template)
            name, source = found.name, found.text
        text = self._work(name, source, variables or {}, call)["text"]
        if output_path is None:
            return {"text": text}
        text = clean(text)
        replaced = self._write(output_path, text, overwrite, call)
        return {"path": output_path, "size_bytes": len(text.encode()), "replaced": replaced}

    @tool(category=MEMORY, access="read")
    def listExtractedTemplates(self) -> dict[str, Any]:
        """List the templates that were extracted from documents, for renderTemplate. create_template(document=…) extracts
        more."""
        names = [row.name for row in self.shelf.rows() if row.source == EXTRACTED]
        return {"templates": names[:MAX_ROWS], "total": len(names)}

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt and where the templates in its code blocks are kept from now on, each under a name of its text."""
        shelf, kept = self.shelf, dict[str, str]()
        for name, text in templates_in(prompt, "prompt"):
            stem = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
            kept[f"{EXTRACTED}/prompt-{stem}.{name.rpartition('.')[2]}"] = text
        for name, text in kept.items():
            if not shelf.has(name, text):
                shelf.write(name, text, overwrite=True)
        if not kept:
            return PromptEnrichmentResult(prompt)
        note = f"[Templates in this prompt are kept as {', '.join(kept)}; renderTemplate fills one in.]"
        return PromptEnrichmentResult(f"{prompt}\n\n{note}", {"extracted": list(kept)})

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
        found = templates_in(data.decode("utf-8", "replace"), document)
        if not found:
            raise ToolError(
                f"{document!r} has no fenced code block with {{{{ variables }}}}. Give name and content."
            )
        shelf = self.shelf
        kept: list[str] = []
        for name, text in found:
            call.changed.append(shelf.write(f"{EXTRACTED}/{name}", text, overwrite=overwrite))
            kept.append(f"{EXTRACTED}/{name}")
        return {"templates": kept}

    def _work(self, name: str, source: str, variables: dict[str, Any] | None, call: Call) -> dict[str, Any]:
        """What the engine says, apart."""
        if variables is not None and len(json.dumps(variables)) > MAX_VARIABLES_CHARS:
            raise ToolError(
                f"The variables are larger than {MAX_VARIABLES_CHARS >> 20} MB. Fill in less at a time."
            )
        request = {"name": name, "template": source, "variables": variables}
        said: dict[str, Any] = work_apart("jaato.plugins.templates.engine:work", request, BOUNDS, call.token)
        return said
