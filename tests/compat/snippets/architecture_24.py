from shared.plugins.model_provider import (
    ModelProviderPlugin,
    ProviderConfig,
    load_provider,
)
from shared.plugins.model_provider.types import ToolSchema, Message

# Load a provider (auto-discovered or from known implementations)
provider = load_provider('google_genai')
provider.initialize(ProviderConfig(project='my-project', location='us-central1'))
provider.connect('gemini-2.5-flash')

# Create session with provider-agnostic tools
provider.create_session(
    system_instruction="You are a helpful assistant.",
    tools=[ToolSchema(name='greet', description='Say hello', parameters={})]
)

# Send messages
response = provider.send_message("Hello!")
print(response.text)
print(response.function_calls)  # If any
