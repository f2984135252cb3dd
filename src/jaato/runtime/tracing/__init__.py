"""Spans of turns, model calls and tool calls, exported by the OpenTelemetry SDK (the extra `otel`)."""
