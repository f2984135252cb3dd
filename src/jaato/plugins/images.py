"""The plugin `multimodal`: `viewImage` shows an image of the workspace to a model that can see."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import ClassVar

from jaato.abc.plugin import Enrichment, Host, Plugin, PromptEnrichmentResult
from jaato.errors import ToolError
from jaato.protocol.messages import Media
from jaato.tools.call import Call, Output
from jaato.tools.host_services import roots_of
from jaato.tools.images import MAX_IMAGE_BYTES, check_image
from jaato.tools.invisible_text import quote
from jaato.tools.markdown import mentions
from jaato.tools.tool import tool

HANDLE = "result:"

MODELS = """
gemini-3-pro* gemini-3.5-* *claude-[3-9]* *claude-[a-z]*-[3-9]*
gpt-4o* gpt-4.1* gpt-4-turbo* gpt-[5-9]* o1 o1-20* o1-pro* o3 o3-[2dp]* o4-mini*
*/gpt-4o* */gpt-4.1* */gpt-[5-9]* */o1 */o3 */o4-mini*
*llava* *vision* *-vl* *vl:* *vl-* *pixtral* *gemma-3* *gemma3* *llama-4* *llama4*
*minicpm-v* *moondream* *internvl* *mistral-small3.[12]* *mistral-medium-3*
""".split()
"""The models that see images, as globs of their names."""

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
NAMED = r"(?is)\A(?>.*?(?<!\w)@).*\.(?:png|jpe?g|gif|webp)\b"
"""A prompt that may name an image, as `@shot.png` or `@"a shot.png"`; decided in one pass."""
MAX_NAMES = 200
MAX_NAMED = 20


class ImagesPlugin(Plugin):
    """Images in the workspace, for models that can see."""

    name: ClassVar[str] = "multimodal"
    enrichment: ClassVar[Enrichment] = Enrichment(60, NAMED)

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._roots = roots_of(host)

    def get_model_requirements(self) -> list[str]:
        """Only models that see images are offered the tool."""
        return MODELS

    def enrich_prompt(self, prompt: str) -> PromptEnrichmentResult:
        """The prompt and how the images it names can be seen."""
        names = [name for name in mentions(prompt, MAX_NAMES) if name.lower().endswith(SUFFIXES)][:MAX_NAMED]
        if not names:
            return PromptEnrichmentResult(prompt)
        lines = [self._describe(name) for name in names]
        notes = {"images": names, "activates": ["viewImage"]}
        return PromptEnrichmentResult("\n\n".join([prompt, *lines]), notes)

    def _describe(self, name: str) -> str:
        try:
            with self._roots.open_file(name):
                return f"[{quote(name)} is an image; viewImage(path={quote(name)}) shows it.]"
        except ToolError as error:
            return f"[The image {quote(name)} cannot be opened: {quote(str(error))}]"

    @tool(category="filesystem", access="read")
    def viewImage(self, path: str, *, call: Call) -> Output:
        """Look at an image file (PNG, JPEG, GIF, WebP): a screenshot, diagram, photo or chart. Returns the image itself, of
        5 MB at most, with its type and size in pixels."""
        with self._roots.open_file(path) as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
        found = check_image(
            data,
            "Scale, cut or convert it with run (such as magick or ffmpeg); readFile shows text, SVG too.",
        )
        try:
            blob = call.keep(data).removeprefix(HANDLE)
        except LookupError:
            raise ToolError("Images are shown to a model in a session only.") from None
        name = PurePosixPath(path).name
        result = f"{name} is {found.mime}, {found.width} x {found.height} pixels, {len(data)} bytes."
        return Output(text=result, media=(Media(found.mime, blob, len(data), name),))
