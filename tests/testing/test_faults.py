"""The faults of the loopback provider: each is met where it says. An idle fault would prove nothing."""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from provider_http import ASKED, EXACT, MODERATIONS, PATHS, post, raw_reply

from lockgate.testing import FAULTS, LoopbackProvider


def test_there_are_many_faults_and_each_says_what_it_does() -> None:
    assert len(FAULTS) >= 40
    assert all(name == name.lower() and name.replace("-", "").replace(".", "").isalnum() for name in FAULTS)
    assert len(set(FAULTS.values())) == len(FAULTS)
    with pytest.raises(TypeError):
        FAULTS["mine"] = "x"  # type: ignore[index]


def test_each_fault_is_met_where_it_says() -> None:
    with LoopbackProvider() as provider, ThreadPoolExecutor(len(PATHS)) as threads:
        good = [raw_reply(provider.url, path, within_s=10) for path in PATHS]
        for fault in FAULTS:
            provider.fault = fault
            place = provider.url
            if place.startswith("https:"):
                continue
            usual = [fault.startswith("says-" if path == MODERATIONS else "rates-") for path in PATHS]
            # A usual reply ends by itself; for the others a moment is enough to see that they are not.
            within_s = [10.0 if each else 0.1 for each in usual]
            met = list(
                threads.map(lambda path, most_s, place=place: raw_reply(place, path, within_s=most_s), PATHS, within_s)  # type: ignore[misc]
            )
            assert [reply == each for reply, each in zip(met, good, strict=True)] == usual, fault


def test_the_faults_in_a_place_are_met_there() -> None:
    with LoopbackProvider() as provider:
        provider.fault = "refused"
        assert raw_reply(provider.url, "/v1/messages") == b"ConnectionRefusedError"
        provider.fault = "never-accepted"
        if sys.platform == "linux":
            assert raw_reply(provider.url, "/v1/messages") == b"TimeoutError"
        provider.fault = "dns-failure"
        assert provider.url == "https://loopback.invalid"
        for fault, error in (
            ("tls-self-signed", ssl.SSLCertVerificationError),
            ("tls-plain", ssl.SSLError),
            ("tls-alert", ssl.SSLError),
            ("tls-hang", TimeoutError),
            ("tls-drip", TimeoutError),
            ("tls-reset", ConnectionResetError),
        ):
            provider.fault = fault
            place = provider.url.removeprefix("https://")
            connection = http.client.HTTPSConnection(place, timeout=0.2, context=ssl.create_default_context())
            with pytest.raises(error):
                connection.request("POST", "/v1/messages", json.dumps(ASKED))
            connection.close()


def test_only_verification_stands_between_a_client_and_the_self_signed_server() -> None:
    with LoopbackProvider(fault="tls-self-signed") as provider:
        careless = ssl.create_default_context()
        careless.check_hostname = False
        careless.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(provider.url.removeprefix("https://"), timeout=5, context=careless)
        connection.request("POST", "/v1/messages", json.dumps(ASKED))
        assert json.loads(connection.getresponse().read())["content"][0]["text"] == EXACT
        connection.close()


def test_faults_can_be_met_in_turn() -> None:
    with LoopbackProvider(fault=["status-500", "reset-at-once", None]) as provider:
        assert provider.fault == "status-500"
        assert post(provider.url, "/v1/messages")[0] == 500
        with pytest.raises(ConnectionError):
            post(provider.url, "/v1/messages")
        assert [post(provider.url, "/v1/messages")[0] for _ in range(3)] == [200] * 3


def test_a_fault_can_come_over_an_open_connection() -> None:
    with LoopbackProvider() as provider:
        connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)

        def ask() -> int:
            connection.request("POST", "/v1/messages", json.dumps(ASKED))
            reply = connection.getresponse()
            return reply.status if reply.read() else 0

        assert [ask(), ask()] == [200, 200]
        provider.fault = "reset-at-once"
        with pytest.raises(ConnectionError):
            ask()
        connection.close()
        assert provider.connections == 1


def test_an_echo_sends_back_what_it_was_sent() -> None:
    with LoopbackProvider(fault="echo") as provider:
        connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)
        connection.request("POST", "/v1/messages", json.dumps(ASKED), {"authorization": "Bearer key", "x-api-key": "k"})
        reply = connection.getresponse()
        connection.close()
    assert reply.status == 401
    assert (reply.headers["x-sent-authorization"], reply.headers["x-sent-x-api-key"]) == ("Bearer key", "k")


def test_a_client_that_follows_a_redirect_is_caught() -> None:
    with LoopbackProvider(fault="redirect-307") as provider:
        connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=5)
        connection.request("POST", "/v1/messages", json.dumps(ASKED))
        reply = connection.getresponse()
        location = reply.headers["location"]
        connection.close()
        assert (reply.status, provider.trapped) == (307, 0)
        place, _, path = location.removeprefix("http://").partition("/")
        assert place == provider.url.removeprefix("http://").replace("127.0.0.1", "localhost")
        status, body = post(provider.url, "/" + path)
        assert (status, provider.trapped) == (200, 1)
        assert json.loads(body)["content"][0]["text"] == EXACT


@pytest.mark.parametrize("fault", ["no such fault", "", [], ["hang", "x\n"]])
def test_an_unknown_fault_is_refused(fault: Any) -> None:
    with pytest.raises(
        ValueError, match=r"there is no fault called `.*`\nhint: lockgate.testing.FAULTS lists them all"
    ):
        LoopbackProvider(fault=fault)
