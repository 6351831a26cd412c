"""What is recorded of file sources that could not be reached, listed or read (dcc/sources)."""

from __future__ import annotations

from typing import Final

from dcc.reports.languages.marking import mark

SENTENCES: Final = (
    # Connections.
    mark("{source}: no connection to {server} ({cause}). Check the host name and port, and that the server is up."),
    mark(
        "{source}: no connection to {server} ({cause}). Raise the limit of open files of the machine on which this "
        "runs (ulimit -n)."
    ),
    mark(
        "{source}: no connection to {server} within {number} seconds. Check the host name and port, that the server is "
        "up and that no firewall stands between; DCC_CONNECT_TIMEOUT sets the limit."
    ),
    mark("{source}: the host {server} could not be found ({cause}). Check the host name."),
    mark("{source}: the name service did not answer for {server} within {number} seconds. Try again."),
    mark(
        "{source}: the server did not begin an SSH session within {number} seconds. Check that the port is that of its "
        "SSH server; DCC_LOGIN_TIMEOUT sets the limit."
    ),
    mark("{source}: no SSH session could be begun ({cause}). Check that the port is that of an SSH server."),
    mark(
        "{source}: the server did not complete {step} within {number} seconds. Check that the port is that of its FTP "
        "server; DCC_LOGIN_TIMEOUT sets the limit."
    ),
    mark("{source}: {step} failed ({cause}). Check that the server offers explicit TLS."),
    mark("{source}: {step} failed ({cause}). Try again later."),
    mark(
        "{source}: the server did not complete the TLS handshake within {number} seconds. Check that the port is that "
        "of its web server; DCC_LOGIN_TIMEOUT sets the limit."
    ),
    mark("{source}: the TLS handshake failed ({cause}). Check that the server speaks https on this port."),
    # Logins.
    mark("{source}: the server refused the login of {user} ({cause}). Check the user name and password."),
    mark("{source}: the server refused {user} ({cause}). Check the user name and password."),
    mark("{source}: the server accepts no login of {user} by password, only by {methods}. Change the access key."),
    mark("{source}: the server accepts no login of {user} by key, only by {methods}. Change the access key."),
    mark(
        "{source}: the server wants more than one proof of {user} (next: {methods}), which is not supported. Ask the "
        "centre for a login by key alone."
    ),
    mark(
        "{source}: the server did not answer the login of {user} in time. Try again; DCC_LOGIN_TIMEOUT sets the limit."
    ),
    mark("{source}: the connection broke off during login ({cause}). Try again."),
    mark(
        "{source}: there is nothing to log in with: the access key is empty and {missing}. Give a password or a key "
        "(key:PATH), or add a key to the agent."
    ),
    mark("{source}: {doing} was refused ({cause}). Check the user name and password."),
    mark(
        "{source}: {doing} was refused ({cause}). Check the user name and password, and that the server makes index "
        "pages of directories."
    ),
    # Keys and certificates.
    mark(
        "{source}: the server shows the host key {key}, but the one accepted is {accepted}. Nothing was sent to it. "
        "Either the server was set up anew or somebody stands in between: ask the centre's administrator for the "
        "fingerprint, and only if it is {fingerprint}: {command}."
    ),
    mark(
        "{source}: the server shows the host key {key}, which DCC_KNOWN_HOSTS marks as revoked. Nothing was sent to "
        "it. Ask the centre for the server's new key."
    ),
    mark(
        "{source}: the server shows the host key {key}, which has never been accepted. Compare the fingerprint with "
        "the one that the centre's administrator gives; if they agree: {command} (or --accept-host-key with dcc source "
        "add)."
    ),
    mark(
        "{source}: the server shows the TLS certificate {key}, but the one accepted is {accepted}. Nothing was sent to "
        "it. Either its certificate was renewed or somebody stands in between: ask the centre's administrator for the "
        "fingerprint, and only if it is this one: {command}"
    ),
    mark(
        "{source}: the server shows the TLS certificate {key}, but where it transfers files {other}. Nothing was taken "
        "from there. Ask whoever runs the server what stands in between."
    ),
    mark(
        "{source}: {certificate} could not be verified ({cause}). Nothing was sent to it. Have it corrected, or name "
        "the authority that signed it in DCC_TLS_CA_FILE."
    ),
    mark(
        "{source}: {certificate} could not be verified ({cause}). Nothing was sent to it. Ask the centre for a valid "
        "one; or name the authority that signed it: {command} (DCC_TLS_CA_FILE: for all sources)"
    ),
    mark(
        "{source}: {certificate} could not be verified ({cause}). Nothing was sent to it. Ask the centre for a valid "
        "one; or name the authority that signed it: {command} (DCC_TLS_CA_FILE: for all sources); or compare the "
        "fingerprint with the one that the centre's administrator gives, and only if they agree: {pin}"
    ),
    # Listings and transfers.
    mark(
        "{source}: the server stalled while {doing}. Ask whoever runs it what it is doing; DCC_IDLE_TIMEOUT and "
        "DCC_LIST_TIMEOUT set the limits."
    ),
    mark(
        "{source}: the server stalled while {doing}. Ask whoever runs it what it is doing; DCC_IDLE_TIMEOUT, "
        "DCC_LIST_TIMEOUT and DCC_LOGIN_TIMEOUT set the limits."
    ),
    mark(
        "{source}: the server stalled while {doing} ({cause}). Ask whoever runs it what it is doing; DCC_IDLE_TIMEOUT, "
        "DCC_LIST_TIMEOUT and DCC_LOGIN_TIMEOUT set the limits."
    ),
    mark("{source}: {doing} failed: it is not there. Check the base path, and whether it was moved."),
    mark("{source}: {doing} failed: it is not there ({cause}). Check whether it was moved."),
    mark(
        "{source}: {doing} failed: the server does not let this user read it. Ask the centre to correct the "
        "permissions."
    ),
    mark(
        "{source}: {doing} failed: the server does not let this user read it ({cause}). Ask the centre to correct the "
        "permissions."
    ),
    mark("{source}: {doing} failed: the server answered {answer}. Ask whoever runs the server, or try again."),
    mark(
        "{source}: {doing} failed: the server sent another part of the file than it was asked for. Ask whoever runs "
        "the server."
    ),
    mark("{source}: {doing} failed ({cause}). Ask whoever runs the server, or try again."),
    mark("{source}: {doing} failed: {cause}. Ask whoever runs the server, or try again."),
    mark("{source}: the connection broke off while {doing} ({cause}). Try again."),
    mark("{source}: FTP knows no names with line breaks. Ask the centre to rename it."),
    mark("{source}: {file} is not there ({cause}). Check whether it was moved."),
    mark("{source}: {file} is not there. Check whether it was moved."),
    mark("{source}: {file} cannot be read ({cause}). Correct its permissions."),
    mark(
        "{source}: {file} has changed since it was listed ({how}). The next crawl lists it anew; nothing needs doing."
    ),
    mark(
        "{source}: the server has nothing at the base path {directory} ({cause}). Correct the file source's base path."
    ),
    mark("{source}: the directory {directory} holds more than {most}. Ask the centre to move old archives elsewhere."),
    mark("{source}: {directory} is no folder. Check the base path."),
    mark(
        "{source}: the folder {directory} cannot be reached ({cause}). Check the base path, and that the disk is "
        "mounted."
    ),
    mark("{source}: the folder {directory} is gone. Check that the disk is mounted."),
    mark("{source}: {directory} leads out of the base path. Move it inside."),
    mark("{source}: {directory} cannot be listed ({cause}). Correct its permissions."),
    mark(
        "{source}: {directories}. Nothing is taken for gone yet: if the next crawl lists the same, it is believed. Ask "
        "the centre whether this is meant; DCC_LISTING_SHRINK_LIMIT sets the limit."
    ),
    mark(
        "{source}: listing {directory} was not done within {number} seconds; {entries} entries had come by then. Ask "
        "whoever runs the server why it is slow. DCC_LIST_TIMEOUT sets the limit for all directories of a file source "
        "together."
    ),
    mark(
        "{source}: listing {directory} was not done within {number} seconds; {entries} entries had come by then. This "
        "was only a trial: a crawl waits {seconds} seconds, as DCC_LIST_TIMEOUT says. Ask whoever runs the server why "
        "it is slow."
    ),
    mark(
        "{source} was given up after {number} s, the sum of DCC_CONNECT_TIMEOUT, DCC_LOGIN_TIMEOUT, DCC_LIST_TIMEOUT "
        "and {slack} s. Ask whoever runs the server what it is doing; the next session tries again."
    ),
    mark("{source}: listing took longer than {number} seconds. Check the disk; DCC_LIST_TIMEOUT sets the limit."),
    mark("{source}: the protocol {protocol} is not supported by this version. Use one of {protocols}."),
)

PARTS: Final = (
    mark("listing {directory}"),
    mark("sending {file}"),
    mark("{number} entries"),
    mark("{number} archives and checksums"),
    mark("the server's TLS certificate"),
    mark("the server's TLS certificate {fingerprint}"),
    mark("no valid host name"),
    mark("opening an SFTP session"),
    mark("telling its login directory"),
    mark("telling the time"),
    mark("answering the first request"),
    mark("its greeting"),
    mark("the TLS handshake"),
    mark("the login"),
    mark("the protection of transfers"),
    mark("the server closed the connection"),
    mark("a packet was changed on its way"),
    mark("no answer in time"),
    mark("the SSH agent holds no key"),
    mark("no SSH agent is running"),
    mark("Connection refused"),
    mark("Connection reset by peer"),
    mark("Broken pipe"),
    mark("No route to host"),
    mark("Network is unreachable"),
    mark("Too many open files"),
    mark("Permission denied"),
    mark("No such file or directory"),
    mark("Input/output error"),
    mark("not done within {number} seconds"),
)

PART_NAMES: Final = frozenset({"doing", "step", "cause", "missing", "most", "certificate"})

FROM_THE_END: Final[frozenset[str]] = frozenset()
