"""A loopback TCP port that leads to the recorder's Unix socket, for clients that only know URLs.

One daemon thread serves all connections, because every thread counts against the sandbox's process limit.
"""

from __future__ import annotations

import selectors
import socket
import threading

_PIECE = 1 << 16


class Shim:
    """The forwarding port. `port` is where it listens, on 127.0.0.1 only."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    def start(self) -> None:
        """Serve until the process ends."""
        threading.Thread(target=self._serve, name="arena-shim", daemon=True).start()

    def _serve(self) -> None:
        while True:
            for key, ready in self._selector.select():
                if key.data is None:
                    self._accept()
                else:
                    key.data.move(ready)

    def _accept(self) -> None:
        try:
            near, _ = self._listener.accept()
        except OSError:
            return
        far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            far.connect(self._socket_path)
        except OSError:
            near.close()
            far.close()
            return
        ends = _End(near, self._selector), _End(far, self._selector)
        for end, other in (ends, ends[::-1]):
            end.other = other
            end.open()


class _End:
    """One side of a forwarded connection. What it reads waits in `outgoing` until the other side takes it."""

    other: _End

    def __init__(self, channel: socket.socket, selector: selectors.BaseSelector) -> None:
        self._channel = channel
        self._selector = selector
        self._open = False
        self.outgoing = b""
        self.ended = False

    def open(self) -> None:
        self._channel.setblocking(False)
        self._open = True
        self._selector.register(self._channel, selectors.EVENT_READ, self)

    def move(self, ready: int) -> None:
        """Read or write what can be, then say what to wait for next."""
        if not self._open:
            return  # closed by the other side within the same round
        try:
            if ready & selectors.EVENT_WRITE:
                self._write()
            if ready & selectors.EVENT_READ and not self.outgoing:
                self._read()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            self.other.close()
            return
        if self.ended and self.other.ended and not self.outgoing and not self.other.outgoing:
            self.close()
            self.other.close()
            return
        self.wait()
        self.other.wait()

    def _read(self) -> None:
        self.outgoing = self._channel.recv(_PIECE)
        if self.outgoing:
            self.other._write()
        else:
            self.ended = True
            self.other._channel.shutdown(socket.SHUT_WR)

    def _write(self) -> None:
        """Send what the other side has read."""
        sent = self._channel.send(self.other.outgoing)
        self.other.outgoing = self.other.outgoing[sent:]

    def wait(self) -> None:
        """Wait for input only while there is room for it, for output only while there is some."""
        if not self._open:
            return
        reading = selectors.EVENT_READ if not self.outgoing and not self.ended else 0
        writing = selectors.EVENT_WRITE if self.other.outgoing else 0
        wanted = reading | writing
        known = self._channel.fileno() in self._selector.get_map()
        if wanted and known:
            self._selector.modify(self._channel, wanted, self)
        elif wanted:
            self._selector.register(self._channel, wanted, self)
        elif known:
            self._selector.unregister(self._channel)

    def close(self) -> None:
        if self._open:
            self._open = False
            if self._channel.fileno() in self._selector.get_map():
                self._selector.unregister(self._channel)
            self._channel.close()
