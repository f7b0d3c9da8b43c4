"""The clients' tests use the adapters' service and model."""

from adapters.conftest import loopback, service

__all__ = ["loopback", "service"]
