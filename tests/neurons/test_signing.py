from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import bittensor
import httpx
import pytest
from bittensor.keyfiles import Keypair

from neurons.signing import HotkeyAuth

MINER, VALIDATOR = Keypair.create_from_uri("//Miner"), Keypair.create_from_uri("//Validator")


class _Checking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            caller = bittensor.http_auth.verify(
                self.headers,
                body,
                method="POST",
                path=self.path,
                self_hotkey_ss58=VALIDATOR.ss58_address,
            )
            status, answer = 200, caller.hotkey_ss58
        except bittensor.http_auth.AuthError as error:
            status, answer = 401, type(error).__name__
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Checking) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def test_the_server_learns_who_sent_the_request(server: str) -> None:
    auth = HotkeyAuth(MINER, VALIDATOR.ss58_address)
    with httpx.Client(auth=auth, trust_env=False) as client:
        for query in ({"a b": "ü/?&"}, {"a b": "again"}):
            answer = client.post(f"{server}/submit", params=query, content=b"print(1)")
            assert (answer.status_code, answer.text) == (200, MINER.ss58_address)


def test_a_request_signed_for_another_server_is_refused(server: str) -> None:
    auth = HotkeyAuth(MINER, MINER.ss58_address)
    answer = httpx.post(f"{server}/submit", content=b"x", auth=auth, trust_env=False)
    assert (answer.status_code, answer.text) == (401, "WrongReceiver")


def test_a_body_changed_on_the_way_is_refused(server: str) -> None:
    class Tampered(HotkeyAuth):
        def auth_flow(self, request: httpx.Request):  # type: ignore[no-untyped-def]
            signed = next(super().auth_flow(request))
            yield httpx.Request("POST", request.url, headers=signed.headers, content=b"evil body!")

    auth = Tampered(MINER, VALIDATOR.ss58_address)
    answer = httpx.post(f"{server}/submit", content=b"good body!", auth=auth, trust_env=False)
    assert (answer.status_code, answer.text) == (401, "BadSignature")


def test_an_ed25519_key_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="sr25519"):
        HotkeyAuth(Keypair.create_from_uri("//Miner", crypto_type=0), VALIDATOR.ss58_address)
