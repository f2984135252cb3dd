success, result = executor.execute(
    "unknown_tool",
    {}
)

if not success:
    print(result["error"])
    # "No executor registered for unknown_tool"

# Permission denied
success, result = executor.execute(
    "dangerous_tool",
    {"cmd": "rm -rf /"}
)
if not success and "_permission" in result:
    print(f"Denied: {result['error']}")
    print(f"Method: {result['_permission']['method']}")
