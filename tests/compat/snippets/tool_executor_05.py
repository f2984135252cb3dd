# Executor returning metadata:
def _exec_input(self, args):
    result = {"output": "..."}
    return (result, {
        "continuation_id": "sess_1",
        "show_output": False,
    })

# ToolExecutor merges metadata into result:
success, result = executor.execute(
    "shell_input", {"session_id": "sess_1", "text": "ls"}
)
# result == {"output": "...", "continuation_id": "sess_1",
#            "show_output": False}
