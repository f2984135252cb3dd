"""Model providers: wire dialects over one HTTP client, the embedded model, and a scripted one for tests."""
