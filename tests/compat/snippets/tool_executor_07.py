from shared.plugins.permission import PermissionPlugin

# Create permission plugin
permission = PermissionPlugin(
    config_path=".jaato/permissions.json",
    channel_type="console"
)

# Set on executor
executor.set_permission_plugin(
    permission,
    context={"session_id": "abc123"}
)

# Now all executions check permissions
success, result = executor.execute(
    "deleteFile",
    {"path": "/etc/passwd"}
)
# User prompted for permission (if not whitelisted/blacklisted)
