"""Requests to servers, refusals, and answers of systems and libraries, as texts for messages."""

from __future__ import annotations

from typing import Final

from dcc.messages import mark

LISTING: Final = mark("listing {directory}")
SENDING: Final = mark("sending {file}")
LOGIN_REFUSED: Final = mark(
    "the server refused the login of '{username}' ({reason}). Check the user name and password."
)

ANSWERS: Final = (
    mark("the server closed the connection"),
    mark("a packet was changed on its way"),
    mark("no answer in time"),
    mark("the SSH agent holds no key"),
    mark("no SSH agent is running"),
    mark("no valid host name"),
    mark("its greeting"),
    mark("the TLS handshake"),
    mark("the login"),
    mark("the protection of transfers"),
    mark("Check that the server offers explicit TLS."),
    mark("Try again later."),
    mark("Connection refused"),
    mark("Connection reset by peer"),
    mark("Broken pipe"),
    mark("No route to host"),
    mark("Network is unreachable"),
    mark("Too many open files"),
    mark("Permission denied"),
    mark("No such file or directory"),
    mark("Input/output error"),
)
"""Known reasons by their words, for catalogues; others stay as they are."""
