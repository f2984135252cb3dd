from shared.plugins.model_provider.types import CancelToken, CancelledException

token = CancelToken()

# In worker thread: poll for cancellation
while not token.is_cancelled:
    do_work_chunk()

# In main thread: request stop
token.cancel()  # Signals all waiters

# Or use blocking wait with timeout
cancelled = token.wait(timeout=5.0)

# Or register callbacks
token.on_cancel(lambda: cleanup())
