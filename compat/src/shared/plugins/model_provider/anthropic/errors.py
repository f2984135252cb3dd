"""The documented home of what a provider can fail with."""

from __future__ import annotations

from jaato.errors import (
    AuthenticationError,
    ConnectionFault,
    ContentRefused,
    ContextOverflow,
    InvalidRequest,
    MalformedReply,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFault,
)

__all__ = [
    "AuthenticationError",
    "ConnectionFault",
    "ContentRefused",
    "ContextOverflow",
    "InvalidRequest",
    "MalformedReply",
    "ModelNotFound",
    "ProviderError",
    "RateLimited",
    "ServerFault",
]
