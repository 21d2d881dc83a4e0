from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.agent_kit.shim import Shim


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while piece := self.request.recv(1 << 16):
            self.request.sendall(piece)


class _EchoServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@pytest.fixture
def shim(short_folder: Path) -> Iterator[Shim]:
    path = str(short_folder / "s")
    with _EchoServer(path, _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        forwarding = Shim(path)
        forwarding.start()
        yield forwarding
        server.shutdown()


def _echoed(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        sender = threading.Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR)))
        sender.start()
        received = bytearray()
        while piece := client.recv(1 << 16):
            received += piece
        sender.join()
        return bytes(received)


def test_large_bodies_cross_both_ways_whole(shim: Shim) -> None:
    sent = bytes(range(256)) * 20_000
    assert _echoed(shim.port, sent) == sent


def test_connections_at_the_same_time_are_kept_apart(shim: Shim) -> None:
    answers: dict[int, bytes] = {}

    def one(number: int) -> None:
        answers[number] = _echoed(shim.port, bytes([number]) * 300_000)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: bytes([number]) * 300_000 for number in range(8)}


def test_a_client_is_closed_out_when_there_is_no_recorder(short_folder: Path) -> None:
    forwarding = Shim(str(short_folder / "nobody"))
    forwarding.start()
    with socket.create_connection(("127.0.0.1", forwarding.port), timeout=20) as client:
        assert client.recv(1) == b""
