# Basic execution
success, result = executor.execute(
    "greet",
    {"name": "Alice"}
)
if success:
    print(result["message"])
    # "Hello, Alice!"

# With output callback for streaming
def on_output(chunk):
    print(f"[stream] {chunk}")

success, result = executor.execute(
    "long_running_task",
    {"input": "data"},
    tool_output_callback=on_output
)

# With call_id for parallel execution
success, result = executor.execute(
    "analyze",
    {"file": "data.csv"},
    call_id="call_12345"
)
