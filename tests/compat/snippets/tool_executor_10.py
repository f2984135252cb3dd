# Use background plugin to check status
checkBackgroundTask(task_id="cli_abc123")
# {"task_id": "cli_abc123", "status": "running"}

# Get output when complete
getBackgroundOutput(task_id="cli_abc123")
# {"status": "completed", "result": {...}}
