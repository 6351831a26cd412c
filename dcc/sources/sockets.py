"""Opens and uses sockets to sources within time limits."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from typing import Final

from dcc.errors import SourceTimeoutError, SourceUnreachableError
from dcc.messages import Message, mark
from dcc.runtime.time_limits import call_with_timeout
from dcc.sources.access import Endpoint

_Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]
NAME_SERVICE: Final = "the name service"


def open_socket(label: Message | str, endpoint: Endpoint, timeout: float) -> socket.socket:
    """Connect by TCP, trying each address of the host in turn, within `timeout` seconds in all.

    Raises SourceTimeoutError or SourceUnreachableError, naming `label`.
    """
    deadline = time.monotonic() + timeout
    addresses = _resolve(label, endpoint, timeout)
    failure: OSError | None = None
    for index, (family, address) in enumerate(addresses):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        try:
            attempt = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            # A kernel without IPv6, or too many open files. Another address's answer is more informative.
            failure = failure or error
            continue
        try:
            attempt.settimeout(remaining / (len(addresses) - index))
            attempt.connect(address)
            attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            attempt.close()
            failure = error
        except BaseException:
            attempt.close()
            raise
        else:
            return attempt
    raise _no_connection(label, endpoint, timeout, failure) from failure


def _no_connection(
    label: Message | str, endpoint: Endpoint, timeout: float, failure: OSError | None
) -> SourceTimeoutError | SourceUnreachableError:
    where = f"{endpoint.host} port {endpoint.port}"
    if failure is None or isinstance(failure, TimeoutError):
        text = mark(
            "no connection to {where} within {timeout} s. If it lasts, check the host name and port, that the "
            "server is up and that no firewall stands between; DCC_CONNECT_TIMEOUT sets the limit."
        )
        return SourceTimeoutError(text, source=label, where=where, timeout=timeout)
    text = mark(
        "no connection to {where} ({strerror}). If it lasts, check the host name and port, and that the server is up."
    )
    if failure.errno in {errno.EMFILE, errno.ENFILE}:
        text = mark(
            "no connection to {where} ({strerror}). Raise the limit of open files of the machine on which this runs "
            "(ulimit -n)."
        )
    strerror = Message(failure.strerror or str(failure))
    return SourceUnreachableError(text, source=label, where=where, strerror=strerror)


def _resolve(label: Message | str, endpoint: Endpoint, timeout: float) -> list[_Address]:
    try:
        found = call_with_timeout(
            lambda: socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM), timeout, NAME_SERVICE
        )
    except TimeoutError:
        text = mark("the name service did not answer for {host} within {timeout} s. Try again.")
        raise SourceTimeoutError(text, source=label, host=endpoint.host, timeout=timeout) from None
    except Exception as error:
        text = mark("the host '{host}' could not be found ({reason}). If it lasts, check the host name.")
        reason = Message((error.strerror or "") if isinstance(error, OSError) else "no valid host name")
        raise SourceUnreachableError(text, source=label, host=endpoint.host, reason=reason) from error
    return [(family, address) for family, _, _, _, address in found]


def shut_down(connection: socket.socket | None) -> None:
    """Close a TCP connection at once; a thread that waits for it stops waiting."""
    if connection is not None:
        with contextlib.suppress(OSError):
            # Not the method of an SSL socket, which would go on in clear text.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
