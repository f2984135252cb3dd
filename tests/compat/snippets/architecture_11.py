# Check if provider supports streaming
if provider.supports_streaming():
    response = provider.send_message_streaming(
        message="Tell me a story",
        on_chunk=lambda text: print(text, end='', flush=True),
        cancel_token=token
    )
else:
    response = provider.send_message(message)
