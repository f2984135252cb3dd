"""The two dialects of OpenAI: Chat Completions, spoken by most other servers too, and Responses."""
