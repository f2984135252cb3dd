"""The earlier place of `jaato.runtime.session_files`, for programs that load a session plugin by its name."""

from jaato.runtime.session_files import load_session_plugin

__all__ = ["load_session_plugin"]
