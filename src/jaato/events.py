"""The events of a session, under one name for programs: `from jaato.events import ToolCallEnd`."""

from jaato.protocol.events import *  # noqa: F403  # the same names, all of them
from jaato.protocol.events import __all__  # noqa: F401
