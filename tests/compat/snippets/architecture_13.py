from shared.retry_utils import with_retry, interruptible_sleep

# Retry with cancellation support
token = CancelToken()
response, stats = with_retry(
    lambda: provider.send_message(message),
    context="send_message",
    cancel_token=token
)

# Manual interruptible sleep
interruptible_sleep(30.0, cancel_token=token)  # Wakes if cancelled
