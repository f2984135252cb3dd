"""The earlier place of `jaato.runtime.session_saving`, for programs that load a session plugin by its name."""

from jaato.runtime.session_saving import load_session_plugin

__all__ = ["load_session_plugin"]
