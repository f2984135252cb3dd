"""Subagent profiles of the user and the workspace, which may only narrow permissions until trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from jaato.abc.plugin import Host
from jaato.abc.subagents import SubagentRequest, ToolChoice
from jaato.errors import ConfigError, ToolError
from jaato.protocol.specs import AgentBounds, ModelSettings
from jaato.tools.call import Call
from jaato.tools.filesystem.containment import similar_names
from jaato.tools.filesystem.private_directory import SourceDirectory
from jaato.tools.host_services import service_of, source_directories, trust_of
from jaato.tools.permissions.trust import Trust
from jaato.typed_decoding import convert

MAX_FILE_BYTES = 64 * 1024
MAX_PROFILES = 200
SUFFIXES = (".json", ".yaml", ".yml")
USER_FOLDER = "profiles"
Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Word = Annotated[str, Meta(min_length=1, max_length=200)]
Words = Annotated[list[Word], Meta(max_length=200)]
Prose = Annotated[str, Meta(max_length=32_000)]
FROM_FILES = ("scripted", "local")
"""Providers whose model is a file, whose path only the user may choose."""
WIDENS = ("model", "provider", "system_prompt", "temperature", "effort", "max_output_tokens")
"""Fields that a workspace profile may not set until the user trusts it."""


class NoProfile(ToolError):
    """There is no such profile, or it cannot be used."""

    code = "no_profile"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a profile or an inline configuration may say; what is None is as the parent has it.

    `instructions` are added to the system prompt (`system_instructions` is another spelling); `system_prompt` replaces it.
    """

    name: Name | None = None
    description: Annotated[str, Meta(max_length=1_000)] | None = None
    instructions: Prose | None = None
    system_instructions: Prose | None = None
    system_prompt: Prose | None = None
    tools: Words | None = None
    plugins: Words | None = None
    deny: Words = []
    read_only: bool = False
    max_turns: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=86_400)] | None = None
    provider: Word | None = None
    model: Word | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    effort: Literal["minimal", "low", "medium", "high"] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None

    def settings(self) -> ModelSettings | None:
        """How to sample, where it says so."""
        made = ModelSettings(self.temperature, self.max_output_tokens, self.effort)
        return made if made != ModelSettings() else None


class Profile(NamedTuple):
    """A profile that was found: what it says, whose it is, and what of it does not count."""

    name: str
    config: Config
    owner: Literal["program", "user", "workspace"]
    path: Path
    left_out: tuple[str, ...] = ()


class ProfileSet(NamedTuple):
    """The profiles by name, and what is wrong with files that are none."""

    profiles: dict[str, Profile]
    problems: list[str]


def to_config(value: Any, where: str) -> Config:
    """Plain data as a configuration. Raises `NoProfile` naming the key that is wrong."""
    try:
        return convert(value, Config)
    except (msgspec.ValidationError, RecursionError) as error:
        known = ", ".join(Config.__struct_fields__)
        raise NoProfile(f"{where}: {str(error)[:300]}. It may say: {known}.") from None


def profile_of(name: str, value: Any) -> Profile:
    """A profile that the embedding program gave. Raises `NoProfile`."""
    where = f"subagents[{name!r:.100}]"
    config = to_config(value, where)
    try:
        own = convert(name, Name)
    except msgspec.ValidationError:
        raise NoProfile(f"{where}: a name has letters, digits, '.', '_' and '-', at most 64.") from None
    return Profile(own, config, "program", Path(where))


def decode_profile(name: str, data: bytes) -> Any:
    """The data of a profile's file. Raises ValueError saying what is wrong with it."""
    if name.endswith(".json"):
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"is no JSON: {error}") from None
    try:
        import yaml
    except ImportError:
        raise ValueError("is YAML; install jaato[data] to use it, or write it as JSON") from None
    try:
        return yaml.load(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 a safe loader
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise ValueError(f"is no YAML: {' '.join(str(error).split())[:200]}") from None


class ProfileStore:
    """Where profiles are: with the program, with the user, and in the workspace. The first of a name counts."""

    def __init__(self, host: Host, folder: str, given: Mapping[str, Profile] = MappingProxyType({})) -> None:
        self._given = given
        parts = tuple(part for part in folder.split("/") if part not in ("", "."))
        self._places = source_directories(host, (USER_FOLDER,), parts)
        self._trust: Trust | None = None
        if (settings := service_of(host, "settings")) is not None:
            self._trust = trust_of(host, settings.state_dir, [settings.config_dir / USER_FOLDER])

    def load(self) -> ProfileSet:
        """All there are. Never raises for what is written there."""
        found = ProfileSet(dict(self._given), [])
        for place in self._places:
            try:
                names = [name for name in place.folder.names() if name.endswith(SUFFIXES)]
            except ToolError as error:
                found.problems.append(str(error))
                continue
            for name in names[:MAX_PROFILES]:
                path = place.root.joinpath(*place.parts, name)
                try:
                    profile = self._read(place, name, path)
                except (ToolError, ConfigError, ValueError) as error:
                    found.problems.append(f"{path}: {error}")
                    continue
                if profile.name in found.profiles:
                    found.problems.append(f"{path}: another one is called {profile.name} already")
                else:
                    found.profiles[profile.name] = profile
        return found

    def _read(self, place: SourceDirectory, name: str, path: Path) -> Profile:
        data = place.folder.read(name, MAX_FILE_BYTES)
        if data is None:
            raise ValueError("has gone")
        config = to_config(decode_profile(name, data), "it is no profile")
        own = config.name or name.rsplit(".", 1)[0]
        convert(own, Name)
        left_out: tuple[str, ...] = ()
        if not self._counts(place.owner, path, data):
            left_out = tuple(key for key in WIDENS if getattr(config, key) is not None)
            config = msgspec.structs.replace(config, **dict.fromkeys(left_out))
        return Profile(own, config, place.owner, path, left_out)

    def _counts(self, owner: str, path: Path, data: bytes) -> bool:
        """Whether a profile counts as a whole: one of the user's that was there when the session began, and one that a user
        has vouched for."""
        trust = self._trust
        return trust is not None and (
            (owner == "user" and trust.owns(path, data)) or trust.trusts(path, data)
        )

    def get(self, name: str) -> Profile:
        """The profile of this name. Raises `NoProfile` with names that are like it."""
        found = self.load()
        profile = found.profiles.get(name)
        if profile is not None:
            return profile
        close = similar_names(name, found.profiles) or list(found.profiles)[:20]
        there = f"There are: {', '.join(close)}." if close else "Users put them into .jaato/profiles/."
        broken = next((text for text in found.problems if f"/{name}." in text), "")
        raise NoProfile(f"No profile {name[:80]!r}. {there} {broken}".strip())

    def trust(self, name: str) -> str:
        """Vouch for the file of a profile as it is; gives what to tell the user."""
        profile = self.get(name)
        if self._trust is None or (profile.owner != "workspace" and not profile.left_out):
            return f"{profile.path} is yours and needs no trust."
        place = next(one for one in self._places if one.owner == profile.owner)
        data = place.folder.read(profile.path.name, MAX_FILE_BYTES)
        self._trust.add(profile.path, data or b"")
        return f"trusted {profile.path} as it is now; any change to it must be trusted again"


def make_order(
    task: str,
    name: str | None,
    background: bool,
    profile: Profile | None,
    inline: Config | None,
    call: Call,
) -> SubagentRequest:
    """A task that a call gives, with what a profile and an inline configuration say of who does it; the second may only
    narrow the first."""
    own, given = profile.config if profile else Config(), inline or Config()
    if given.provider in FROM_FILES:
        raise NoProfile(
            f"inline_config cannot name the provider {given.provider}; a profile of the user can."
        )
    instructions = [
        own.instructions or own.system_instructions,
        given.instructions or given.system_instructions,
    ]
    whole = given.system_prompt or own.system_prompt
    choices = [ToolChoice(one.tools, one.plugins) for one in (own, given)]
    return SubagentRequest(
        task=task,
        name=name or given.name,
        profile=profile.name if profile else None,
        background=background,
        instructions="\n\n".join(part for part in (whole, *instructions) if part) or None,
        whole_prompt=whole is not None,
        provider=given.provider or own.provider,
        model=given.model or (None if given.provider else own.model),
        settings=given.settings() or own.settings(),
        bounds=AgentBounds(
            deny=[*own.deny, *given.deny],
            read_only=own.read_only or given.read_only,
            max_turns=minimum_given(own.max_turns, given.max_turns),
            timeout_s=minimum_given(own.timeout_s, given.timeout_s),
        ),
        choices=tuple(one for one in choices if one != ToolChoice()),
        call_id=call.id,
        again=call.again,
    )


def minimum_given(*numbers: Any) -> Any:
    """The smallest number that was given; None for none."""
    return min((number for number in numbers if number is not None), default=None)


def profile_row(profile: Profile) -> dict[str, Any]:
    """A profile for the model."""
    config = msgspec.to_builtins(profile.config)
    for key in ("instructions", "system_instructions", "system_prompt", "name"):
        config.pop(key, None)
    row: dict[str, Any] = {"name": profile.name, "owner": profile.owner, **config}
    if profile.left_out:
        row["not_trusted"] = (
            f"{', '.join(profile.left_out)} left out until the user types /profiles trust {profile.name}"
        )
    return row


def parse_config(value: Any) -> Any:
    """An inline configuration that came as a JSON text, as some models write it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise NoProfile("inline_config: it is an object, or the JSON text of one.") from None
