"""Environment variables that break connections."""

import asyncio
from pathlib import Path

import certifi
import pytest
from contextrender_bridge.base.network_proxy import network_proxy_of
from contextrender_bridge.proxy.provider import Connections, Unavailable
from contextrender_bridge.proxy.surroundings import MORE_CERTIFICATES, faults, trusted_certificates

from tests.cli.test_doctor import findings, machine
from tests.proxy.conftest import Start
from tests.support.command import printed
from tests.support.transcripts import user

__all__ = ["machine"]
BODY = {"model": "m", "messages": [user("Find the fault.")]}
CALL = "/v1/chat/completions"
NOWHERE = "/nowhere/ca.pem"


def test_missing_certificates_break_https_only(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = start()
    monkeypatch.setenv("SSL_CERT_FILE", NOWHERE)
    assert setup.post(CALL, BODY).status_code == 200
    response = start(upstream="https://127.0.0.1:9").post(CALL, BODY)
    assert response.status_code == 502
    assert f"SSL_CERT_FILE names {NOWHERE}" in response.json()["error"]["message"]


def test_invalid_network_proxy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        connections = Connections(1.0)
        try:
            async with connections.answer("POST", "https://provider.test/v1", [], b"{}"):
                pass
        finally:
            await connections.close()

    monkeypatch.setenv("HTTPS_PROXY", "socks5://me:secret@gate.test:1080")
    with pytest.raises(Unavailable) as failure:
        asyncio.run(ask())
    text = str(failure.value)
    assert "provider.test: socks5://gate.test:1080 is no HTTP proxy" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("ALL_PROXY", "socks5://a.test:1", "no connection to https://service.test"),
        ("NO_PROXY", "localhost,[::1]", "No answer from https://service.test"),
        ("NO_PROXY", "fd00::/8 service.test", "No answer from https://service.test"),
    ],
)
def test_unreachable_remote_service_is_one_sentence(
    machine: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_URL", "https://service.test")
    monkeypatch.setenv("CONTEXTRENDER_TOKEN", "t")
    monkeypatch.setenv(name, value)
    assert sentence in printed("sessions", status=1)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("SSL_CERT_FILE", NOWHERE, NOWHERE),
        ("SSL_CERT_FILE", __file__, "test_surroundings.py, which cannot be read"),
        ("SSL_CERT_DIR", "/nowhere/certs", "which is no folder"),
        ("SSL_CERT_DIR", str(Path(__file__).parent), "which has no certificates"),
        ("HTTPS_PROXY", "http://gate.test:port", "HTTPS_PROXY"),
        ("all_proxy", "socks4://gate.test", "all_proxy"),
    ],
)
def test_doctor_names_the_variable(
    machine: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert not list(faults())
    monkeypatch.setenv(name, value)
    network = findings(1)["network"]
    assert network["state"] == "bad" and expected in network["message"]


def test_valid_network_proxies_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for proxy in ("gate.test:8080", "http://me:secret@gate.test", "https://[::1]:3128", " g:1 "):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        assert not list(faults())


@pytest.mark.parametrize(
    "variables",
    [
        {"ALL_PROXY": "socks5://gate.test:1", "NO_PROXY": "a.test, *"},
        {"ALL_PROXY": "socks5://gate.test:1", "HTTPS_PROXY": "gate:1", "HTTP_PROXY": "gate:1"},
        {"SSL_CERT_DIR": "/nowhere", "SSL_CERT_FILE": certifi.where()},
        {"NODE_EXTRA_CA_CERTS": NOWHERE, "REQUESTS_CA_BUNDLE": NOWHERE},
        {"FTP_PROXY": "socks5://gate.test:1"},
    ],
)
def test_unused_variables_are_no_fault(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert not list(faults())


@pytest.mark.parametrize("name", MORE_CERTIFICATES)
def test_certificates_that_agents_trust_are_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    for variable in MORE_CERTIFICATES:
        monkeypatch.delenv(variable, raising=False)
    first, second, *_ = Path(certifi.where()).read_text().split("-----END CERTIFICATE-----\n")
    for variable, text in (("SSL_CERT_FILE", first), (name, second)):
        path = tmp_path / f"{variable}.pem"
        path.write_text(f"{text}-----END CERTIFICATE-----\n")
        monkeypatch.setenv(variable, str(path))
    context, _ = trusted_certificates()
    assert context is not None and context.cert_store_stats()["x509"] == 2


@pytest.mark.parametrize(
    ("no_proxy", "direct", "proxied"),
    [
        ("localhost 10.1.2.3 .corp.test", "https://a.corp.test", "https://corp.example"),
        ("10.0.0.0/8,fd00::/8", "https://10.9.8.7:8443", "https://11.0.0.1"),
        ("fd00::/8", "https://[fd12::1]", "https://[fe80::1]"),
        ("[::1],[fd00::]/8", "https://[fd12::1]", "https://ffd0.test"),
        ("*.corp.test; x", "https://a.b.corp.test", "https://acorp.test"),
        ("gate.test:8443", "https://gate.test:8443", "https://gate.test"),
        ("https://gate.test/", "https://GATE.test", "https://gate.test.example"),
        ("a, *", "https://anything.test", ""),
    ],
)
def test_no_proxy_in_every_form(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, direct: str, proxied: str
) -> None:
    """Names, addresses and networks are separated by commas or, as Claude Code allows, spaces."""
    monkeypatch.setenv("HTTPS_PROXY", "gate.test:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert network_proxy_of(direct) is None
    if proxied:
        assert network_proxy_of(proxied) == "http://gate.test:3128"
