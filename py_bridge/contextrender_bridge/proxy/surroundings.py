"""Find environment variables that prevent connections to providers.

`contextrender doctor` reports them, and so does the answer to a model call that fails because of
one.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
SUPPORTED_SCHEMES = frozenset({"http", "https"})


def trusted_certificates() -> tuple[ssl.SSLContext | None, str]:
    """Return a TLS context with the trusted certificates, and an empty reason.

    If the certificates cannot be read, return None and the reason.
    """
    try:
        return httpx.create_ssl_context(), ""
    except OSError as error:
        reason = error.strerror or getattr(error, "reason", "") or type(error).__name__
        subject = "the file of certificates"
        for name in reversed(CERTIFICATES):
            if name in os.environ:
                subject = f"{name} names {os.environ[name]}, which"
        return None, f"{subject} cannot be read ({reason}): correct or unset it"


def proxy_fault(address: str) -> str:
    """Return the reason why the network proxy at `address` cannot be used; empty if it can."""
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        is_usable = parts.scheme in SUPPORTED_SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    return "" if is_usable else f"{without_password(address)} is no HTTP proxy"


def without_password(address: str) -> str:
    """Return `address` with its user and password removed."""
    scheme, mark, location = address.rpartition("://")
    return f"{scheme}{mark}{location.rpartition('@')[2]}"


def faults(proxies: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield a sentence for each environment variable that prevents connections.

    `proxies` are addresses by scheme (default: those of the environment).
    """
    if sentence := trusted_certificates()[1]:
        yield sentence
    folder = os.environ.get("SSL_CERT_DIR")
    if folder and not any(Path(part).is_dir() for part in folder.split(os.pathsep)):
        yield f"SSL_CERT_DIR names {folder}, which is no folder: correct or unset it"
    for scheme, address in (getproxies() if proxies is None else proxies).items():
        name = f"{scheme}_proxy"
        if name in PROXIES and (fault := proxy_fault(address)):
            variable = name.upper() if name.upper() in os.environ else name
            yield f"{variable}: {fault}; name one as http://HOST:PORT, or unset it"
