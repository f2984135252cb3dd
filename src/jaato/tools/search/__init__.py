"""Search for tools: by words (BM25) and by meaning (embeddings)."""
