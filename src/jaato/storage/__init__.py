"""Where sessions are kept: an SQLite log and content-addressed blobs beside it."""
