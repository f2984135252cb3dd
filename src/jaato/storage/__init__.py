"""Storage of sessions: an SQLite log, content-addressed blobs beside it, bundles to export and import."""
