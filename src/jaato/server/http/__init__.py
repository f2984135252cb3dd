"""HTTP and WebSocket: listeners, bounded connections, TLS, and lazily opened applications."""
