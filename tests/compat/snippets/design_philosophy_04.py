class CancelToken:
    """Thread-safe cancellation signaling."""

class CancelledException:
    """Raised when operation is cancelled."""

class FinishReason(Enum):
    CANCELLED = "cancelled"
