from shared import JaatoClient, PluginRegistry, TokenLedger

model_name = 'gemini-2.5-flash'

# 1. Create model-aware registry
# Passing model_name enables automatic compatibility checking.
# Plugins that require specific model features (like multimodal
# function responses) will be skipped if the model doesn't support them.
registry = PluginRegistry(model_name=model_name)
registry.discover()
registry.expose_tool('cli')
registry.expose_tool('mcp')

# Check if any plugins were skipped due to model requirements
skipped = registry.list_skipped_plugins()
if skipped:
    print(f"Skipped plugins: {skipped}")

# 2. Create client and connect
client = JaatoClient()
client.connect(
    project_id='my-gcp-project',
    location='us-central1',
    model=model_name
)

# 3. Configure tools
ledger = TokenLedger()
client.configure_tools(registry, ledger=ledger)

# 4. Have a conversation (history managed automatically)
# The callback receives (source, text, mode) for real-time output
def on_output(source: str, text: str, mode: str):
    print(f"[{source}]: {text}")

response1 = client.send_message("What's in my current directory?", on_output=on_output)
response2 = client.send_message("Show me the git log", on_output=on_output)

# 5. Check usage
usage = client.get_context_usage()
print(f"Context: {usage['percent_used']:.1f}% used")
