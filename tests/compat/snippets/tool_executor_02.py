from shared import ToolExecutor
from shared.token_accounting import TokenLedger

# Default configuration
executor = ToolExecutor()

# With token ledger
ledger = TokenLedger()
executor = ToolExecutor(ledger=ledger)

# Custom background pool
executor = ToolExecutor(
    auto_background_enabled=True,
    auto_background_pool_size=8
)
