from jaato import PluginRegistry
from shared import ToolExecutor
from shared.token_accounting import TokenLedger

executor = ToolExecutor()

# Set ledger for event recording
ledger = TokenLedger()
executor.set_ledger(ledger)

# Set registry for plugin lookups
registry = PluginRegistry()
registry.expose_all()
executor.set_registry(registry)

# Get current callbacks
output_cb = executor.get_output_callback()
tool_cb = executor.get_tool_output_callback()
