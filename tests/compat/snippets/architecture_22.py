from shared.plugins.session import create_plugin, SessionConfig, load_session_config

# Load config from .jaato/.sessions.json (or use defaults)
config = load_session_config()

# Create and configure plugin
session_plugin = create_plugin()
session_plugin.initialize({'storage_path': config.storage_path})

# Connect to client
client.set_session_plugin(session_plugin, config)
