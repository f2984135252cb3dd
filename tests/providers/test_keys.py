"""Which key a provider is asked with: a given one, a variable's, a saved one; and what is said without any."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaato.errors import ConfigError
from jaato.providers.http import HttpProvider
from jaato.providers.profiles import PROFILES
from jaato.runtime.provider_keys import keys_file
from jaato.runtime.provider_selection import make_provider
from jaato.settings import Settings, load
from jaato.tools.filesystem.atomic import write_private


def home(tmp_path: Path, **environ: str) -> Settings:
    """Settings of an empty home with these variables."""
    return load(environ={"HOME": str(tmp_path), **environ})


def key_of(name: str, settings: Settings, api_key: str | None = None) -> object:
    """The key the provider of this name would send."""
    provider = make_provider(name, settings, model="m", api_key=api_key)[0]
    assert isinstance(provider, HttpProvider)
    return provider._key


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_variable_counts_more_than_a_saved_key(name: str, tmp_path: Path) -> None:
    """A given key counts most, then each variable of the provider, then what `jaato login` saved."""
    saved = home(tmp_path)
    write_private(keys_file(saved), b'{"%s": {"key": "saved-key"}}' % name.encode())
    assert key_of(name, saved) == "saved-key"
    for variable in PROFILES[name].key_variables:
        settings = home(tmp_path, **{variable: "variable-key"})
        assert key_of(name, settings) == "variable-key"
        assert key_of(name, settings, "given-key") == "given-key"


def test_a_variable_spares_the_keyring(tmp_path: Path) -> None:
    """With a variable set the saved keys are not looked at: a damaged or locked store stops nobody."""
    write_private(keys_file(home(tmp_path)), b"{damaged")
    assert key_of("openai", home(tmp_path, OPENAI_API_KEY="variable-key")) == "variable-key"
    with pytest.raises(ConfigError, match="jaato login"):
        key_of("openai", home(tmp_path))


@pytest.mark.parametrize(
    ("name", "variable"),
    [(name, profile.key_variables[0]) for name, profile in PROFILES.items() if name != "ollama"],
)
def test_without_a_key_the_variable_and_the_command_are_named(
    name: str, variable: str, tmp_path: Path
) -> None:
    """A missing key is an error that names the variable to set and the command that saves one."""
    with pytest.raises(ConfigError, match=variable) as caught:
        make_provider(name, home(tmp_path), model="m")
    assert f"jaato login {name}" in str(caught.value)
