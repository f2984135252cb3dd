from shared import ToolExecutor

executor = ToolExecutor()

# Register a tool
def my_tool(args):
    return {"result": args.get("input", "") * 2}

executor.register("double_string", my_tool)

# Execute the tool
success, result = executor.execute(
    "double_string",
    {"input": "hello"}
)
# result: {"result": "hellohello"}
