"""Find environment variables that prevent connections to providers.

`contextrender doctor` reports them, and so does the answer to a model call that fails because of
one.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from contextrender_bridge.base.network_proxy import network_proxy_of

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
MORE_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables with which agents trust further certificates. Like Node, ignore unreadable files."""
ANY_ADDRESS = "provider.invalid"
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")
"""The name of a certificate in `SSL_CERT_DIR`. OpenSSL ignores other names."""
SUPPORTED_SCHEMES = frozenset({"http", "https"})


def trusted_certificates() -> tuple[ssl.SSLContext | None, str]:
    """Return a TLS context with the trusted certificates, and an empty text.

    If the certificates cannot be read, return None and a sentence with the reason.
    """
    try:
        # Read the certificates of `CERTIFICATES` or the defaults, then those of agents.
        context = httpx.create_ssl_context()
        for path in filter(None, map(os.environ.get, MORE_CERTIFICATES)):
            with suppress(OSError):
                is_folder = Path(path).is_dir()
                context.load_verify_locations(**{"capath" if is_folder else "cafile": path})
        return context, ""
    except OSError as error:
        # Name the variable that the certificates come from; the first of `CERTIFICATES` counts.
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

    `proxies` maps a scheme such as `https` to the address of its network proxy. If it is None, read
    the addresses from the environment.
    """
    # The certificates.
    if sentence := trusted_certificates()[1]:
        yield sentence
    folder = os.environ.get("SSL_CERT_DIR")
    if folder and not os.environ.get("SSL_CERT_FILE"):  # otherwise the folder is not used
        parts = [Path(part) for part in folder.split(os.pathsep)]
        names = [path.name for part in parts if part.is_dir() for path in part.iterdir()]
        if not any(part.is_dir() for part in parts):
            yield f"SSL_CERT_DIR names {folder}, which is no folder: correct or unset it"
        elif not any(map(_HASHED.fullmatch, names)):
            yield f"SSL_CERT_DIR names {folder}, which has no certificates: see `openssl rehash`"
    # The network proxies. Report a variable that is used for both schemes only once.
    proxies = getproxies() if proxies is None else proxies
    names = []
    for scheme in ("https", "http"):
        address = network_proxy_of(f"{scheme}://{ANY_ADDRESS}", proxies)
        name = f"{scheme if proxies.get(scheme) else 'all'}_proxy"
        if address and name not in names and (fault := proxy_fault(address)):
            variable = name.upper() if name.upper() in os.environ else name
            yield f"{variable}: {fault}; name one as http://HOST:PORT, or unset it"
            names.append(name)
