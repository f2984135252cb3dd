"""Gemini on Vertex AI: the same dialect below a project and a place, with tokens from google-auth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jaato.abc.provider import ModelRequest
from jaato.errors import AuthenticationError, ConfigError
from jaato.providers.google_genai import GeminiDialect

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
NAME = re.compile(r"[a-z0-9][a-z0-9:.-]{0,62}")


class VertexDialect(GeminiDialect):
    """The Gemini dialect at `projects/…/locations/…`, with a bearer token."""

    def __init__(self, project: str, location: str, provider: str = "google_genai") -> None:
        super().__init__(provider)
        for what, value in (("GOOGLE_CLOUD_PROJECT", project), ("GOOGLE_CLOUD_LOCATION", location)):
            if not NAME.fullmatch(value):
                raise ConfigError(
                    f"{what} is {value!r}, which is not the name of one; set it to use Vertex AI."
                )
        self._place = f"/v1beta1/projects/{project}/locations/{location}"

    def path(self, request: ModelRequest) -> str:
        """The path of the streaming call; a model of another publisher is written `publishers/…/models/…`."""
        model = request.model.removeprefix("models/")
        model = model if "/" in model else f"publishers/google/models/{model}"
        return f"{self._place}/{quote(model, safe='/@:.-_')}:streamGenerateContent?alt=sse"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The token as a bearer."""
        return {"authorization": f"Bearer {key}"} if key else {}


def base_url(location: str) -> str:
    """The host of a location; `global` and the multi-regions have their own forms."""
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


class Tokens:
    """Access tokens from the application default credentials, fetched and renewed in a worker thread.

    `credentials` are google-auth's own; without them they are found where Google's tools look for them.
    """

    def __init__(self, credentials: Any = None, request: Any = None) -> None:
        self._credentials = credentials
        self._request = request

    async def __call__(self) -> str:
        """A token that is valid now; raises `AuthenticationError` when none can be had."""
        import anyio.to_thread

        found = self._credentials
        if found is not None and found.valid:
            return str(found.token)
        return await anyio.to_thread.run_sync(self._renewed, abandon_on_cancel=True)

    def _renewed(self) -> str:
        try:
            import google.auth
            import google.auth.exceptions
            import google.auth.transport.requests
        except ImportError:
            raise ConfigError("Vertex AI needs google-auth: pip install 'jaato[vertex]'.") from None
        try:
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[SCOPE])
            if not self._credentials.valid:
                self._credentials.refresh(self._request or google.auth.transport.requests.Request())
        except google.auth.exceptions.GoogleAuthError as error:
            raise AuthenticationError(
                f"Google gave no access token: {error}. Run 'gcloud auth application-default login', "
                "or set GOOGLE_APPLICATION_CREDENTIALS.",
            ) from None
        return str(self._credentials.token)
