# Emitted from JaatoSession._run_chat_loop()
for fc in function_calls:
    name = fc.name
    args = fc.args

    # Hook: tool starting (shows in UI below spinner)
    if self._ui_hooks:
        self._ui_hooks.on_tool_call_start(
            agent_id=self._agent_id,
            tool_name=name,
            tool_args=args
        )

    # Execute tool
    result = executor.execute(name, args)

    # Hook: tool ended (removes from UI)
    if self._ui_hooks:
        self._ui_hooks.on_tool_call_end(
            agent_id=self._agent_id,
            tool_name=name,
            success=True,
            duration_seconds=elapsed
        )
