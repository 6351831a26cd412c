"""The address and the credentials of a source: the `hostname` and `accesskey` of a `file_source` row.

`accesskey` is either the secret itself or a reference to it, so that no secret need be in the database:

- `env:NAME`: the value of an environment variable;
- `file:PATH`: the contents of a file, without surrounding blanks and line ends;
- `key:PATH` or `key:PATH?passphrase=env:NAME` (or `=file:PATH`): a private key file;
- the plain path of a private key file;
- empty: the SSH agent's keys (sftp), or no password;
- anything else: a password.

A file that anybody but its owner and group may read, or anybody but its owner may write, is refused. The value of
`env:` and `file:` may be a password or the text of a private key. DCC_KEY_PASSPHRASE opens a key whose passphrase is
not named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import SecretStr

from dcc.errors import ConfigurationError
from dcc.messages import Message, mark, message
from dcc.redaction import keep_secret
from dcc.settings.hosts import is_host_name, shown_host
from dcc.settings.secret_references import (
    MAX_SECRET_BYTES,
    is_reference,
    read_reference,
    read_secret_file,
    refuse_open_to_others,
)

_PRIVATE_KEY = re.compile(r"\A\s*-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
_PUBLIC_KEY = re.compile(rb"\A\s*(?:(?:ssh|ecdsa|sk)-\S+ AAAA|-----? ?BEGIN [A-Z0-9 ]*PUBLIC KEY)")
_ACCESS_KEY = "an access key"
_GIVEN: Final = message(mark("the access key"))
_KEY_FILE: Final = mark("the private key {path}")


class Endpoint(NamedTuple):
    """A host (name or address, without brackets) and a TCP port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials: a password, or the text of a private key and its passphrase, or none of them.

    `origin` says for messages where they come from.
    """

    password: SecretStr | None = None
    private_key: SecretStr | None = None
    passphrase: SecretStr | None = None
    origin: Message = _GIVEN

    def __post_init__(self) -> None:
        keep_secret(*self.secrets)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret texts, for redacting a server's answers."""
        held = (self.password, self.private_key, self.passphrase)
        return tuple(secret.get_secret_value() for secret in held if secret is not None)


def parse_hostname(hostname: str, default_port: int) -> Endpoint:
    """Parse `host`, `host:port`, `[ipv6]`, `[ipv6]:port` or a bare IPv6 address.

    Raises ConfigurationError, which does not repeat a host name with a user name or password, nor an invalid port: a
    login without its host has the password there.
    """
    if "@" in hostname:
        raise ConfigurationError(
            "The host name of the file source holds an '@'. Give the host alone, "
            "and the user name and access key in their own fields."
        )
    text = hostname.strip()
    host, port = text, str(default_port)
    bracketed = re.fullmatch(r"\[([^\[\]]+)\](?::(.*))?", text)
    if bracketed is not None:
        host = bracketed[1]
        if bracketed[2] is not None:
            port = str(bracketed[2])
    elif text.count(":") == 1:
        host, port = text.split(":")
    if not is_host_name(host) or (bracketed is not None and ":" not in host):
        raise ConfigurationError(f"{shown_host(text)} is no host name. Write host, host:port or [ipv6]:port.")
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65_535:
        raise ConfigurationError(f"{host!r} has no port between 1 and 65535. Write host, host:port or [ipv6]:port.")
    return Endpoint(host, int(port))


def resolve_accesskey(accesskey: SecretStr, fallback_passphrase: SecretStr | None = None) -> Credential:
    """The password or private key of an `accesskey`.

    `fallback_passphrase` opens an encrypted key without a named passphrase. Raises ConfigurationError for a missing
    reference, with the name of the variable or file and never a secret.
    """
    text = accesskey.get_secret_value()
    if not text:
        return Credential(origin=message(mark("an empty access key")))
    _refuse_public_key(re.sub(r"\A(?:file|key):|\?passphrase=.*\Z", "", text))
    if is_reference(text):
        kind, _, name = text.partition(":")
        origin = mark("the environment variable {name}") if kind == "env" else mark("the file {name}")
        known: dict[str, Any] = {"origin": message(origin, name=name)}
        value = read_reference(text, _ACCESS_KEY)
        if _PRIVATE_KEY.match(value) is None:
            return Credential(password=SecretStr(value), **known)
        return Credential(private_key=SecretStr(value + "\n"), passphrase=fallback_passphrase, **known)
    if text.startswith("key:"):
        path, _, passphrase_reference = text.removeprefix("key:").partition("?passphrase=")
        passphrase = (
            SecretStr(read_reference(passphrase_reference, _ACCESS_KEY))
            if passphrase_reference
            else fallback_passphrase
        )
        key = read_secret_file(Path(path).expanduser(), f"the private key {path}")
        if _PRIVATE_KEY.match(key) is None:
            raise ConfigurationError(f"The file {path} is no private key. Name a private key in OpenSSH or PEM format.")
        return Credential(private_key=SecretStr(key), passphrase=passphrase, origin=message(_KEY_FILE, path=path))
    found = _private_key_at(text)
    if found is not None:
        return Credential(
            private_key=SecretStr(found), passphrase=fallback_passphrase, origin=message(_KEY_FILE, path=text)
        )
    return Credential(password=accesskey)


def _refuse_public_key(text: str) -> None:
    """Raise ConfigurationError if the text is the path of a public key, which anybody may read."""
    try:
        path = Path(text).expanduser()
        # What comes through a pipe can be read only once.
        is_small = path.is_file() and path.stat().st_size <= MAX_SECRET_BYTES
        is_public = is_small and _PUBLIC_KEY.match(path.read_bytes()) is not None
    except (OSError, ValueError, RuntimeError):
        return
    if is_public:
        private = text.removesuffix(".pub")
        hint = f", probably {private}" if private != text else ""
        raise ConfigurationError(f"The file {text} is the public half of a key. Name the private half{hint}.")


def _private_key_at(text: str) -> str | None:
    """Contents of the private key file with this path; None if the text is no such path."""
    try:
        path = Path(text).expanduser()
        if not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(MAX_SECRET_BYTES).decode("utf-8", "replace")
            if _PRIVATE_KEY.match(content) is None:
                return None
            refuse_open_to_others(file.fileno(), path, f"the private key {path}")
    except (OSError, ValueError, RuntimeError):
        return None
    return content
