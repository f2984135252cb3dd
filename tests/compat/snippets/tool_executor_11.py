from shared.ai_tool_runner import (
    ToolExecutor,
    get_current_tool_output_callback
)

executor = ToolExecutor()

# General output callback
def on_output(source, text, mode):
    print(f"[{source}] {text}")

executor.set_output_callback(on_output)

# Tool-specific callback
def on_tool_output(chunk):
    print(f"[tool] {chunk}")

executor.set_tool_output_callback(on_tool_output)
