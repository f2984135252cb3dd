# Tool exceeds threshold
success, result = executor.execute(
    "runCommand",
    {"command": "npm install"}  # Takes > 30s
)

if result.get("auto_backgrounded"):
    task_id = result["task_id"]
    print(f"Task backgrounded: {task_id}")
    print(result["message"])
    # "Task exceeded 30s threshold, continuing
    #  in background. Use task_id 'cli_abc123'
    #  to check status and output."
