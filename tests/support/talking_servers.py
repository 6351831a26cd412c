"""Servers that talk as a test says to whoever connects, on loopback, in threads of the test process."""

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator

Talk = Callable[[socket.socket], None]


@contextlib.contextmanager
def serving(talk: Talk, host: str = "127.0.0.1") -> Iterator[tuple[str, list[socket.socket]]]:
    """A server that talks so to whoever connects; its `host:port`, and the connections that were made to it."""
    listener = socket.create_server((host, 0))
    accepted: list[socket.socket] = []

    def handle(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            talk(connection)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                accepted.append(connection)
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"{host}:{listener.getsockname()[1]}", accepted
    finally:
        for used in [listener, *accepted]:
            with contextlib.suppress(OSError):
                used.shutdown(socket.SHUT_RDWR)
            used.close()


def greeting(words: bytes) -> Talk:
    """Says this, and then nothing more, until it is hung up on."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(words)
        while connection.recv(1000):
            pass

    return talk


def repeating(words: bytes, pause: float) -> Talk:
    """Says this again and again, until it is hung up on."""

    def talk(connection: socket.socket) -> None:
        connection.settimeout(pause)
        while True:
            connection.sendall(words)
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1000):
                    return

    return talk


def trickling_web_server() -> contextlib.AbstractContextManager[tuple[str, list[socket.socket]]]:
    """Its index pages go on without end, a link at a time."""

    def talk(connection: socket.socket) -> None:
        asked = connection.recv(4096)
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n")
        for number in itertools.count(1) if asked.startswith(b"GET") else ():
            connection.sendall(f'<a href="H.2013-10-31.{number}.impc.zip">zip</a>\n'.encode())
            time.sleep(0.02)

    return serving(talk)
