"""The login over SSH: by password, private key or agent."""

from __future__ import annotations

import io
import os
import time

import paramiko
from pydantic import SecretStr

from dcc.errors import ConfigurationError, LoginRefusedError, SourceTimeoutError, SourceUnreachableError
from dcc.messages import Message, mark, message
from dcc.redaction import redact
from dcc.sources.access import Credential
from dcc.sources.base import SourceAddress
from dcc.sources.sftp.connection import SshConnection, describe

_KEY_CLASSES: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def log_in(connection: SshConnection, address: SourceAddress, credential: Credential, timeout: float) -> None:
    """Log in within `timeout` seconds in all.

    A password is also sent if the server asks for it interactively; without password and key, the keys of the SSH agent
    are used. Raises LoginRefusedError, SourceTimeoutError, SourceUnreachableError, or ConfigurationError for an
    unusable private key. No message contains a secret.
    """
    deadline = time.monotonic() + timeout
    if credential.password is not None:
        _attempt(connection, address, credential, deadline, credential.password.get_secret_value())
    elif credential.private_key is not None:
        _attempt(connection, address, credential, deadline, load_private_key(credential, credential.private_key))
    else:
        _log_in_by_agent(connection, address, credential, deadline)


def load_private_key(credential: Credential, private_key: SecretStr) -> paramiko.PKey:
    """The private key of a credential, of any type and format. Raises ConfigurationError, without its text."""
    text = private_key.get_secret_value()
    passphrase = credential.passphrase.get_secret_value() if credential.passphrase is not None else None
    reasons = []
    for key_class in _KEY_CLASSES:
        try:
            return key_class.from_private_key(io.StringIO(text), passphrase)
        except paramiko.PasswordRequiredException as error:
            raise ConfigurationError(
                f"The private key given by {credential.origin} has a passphrase. "
                "Name it as key:PATH?passphrase=env:NAME, or set DCC_KEY_PASSPHRASE."
            ) from error
        except Exception as error:
            # Classes raise different exceptions for a foreign or damaged key.
            reasons.append(type(error).__name__)
    hint = "Check its passphrase, and that it" if passphrase is not None else "Check that it"
    raise ConfigurationError(
        f"The private key given by {credential.origin} cannot be used. {hint} is an Ed25519, ECDSA or RSA key in "
        f"OpenSSH or PEM format (tried: {', '.join(reasons)})."
    )


def _log_in_by_agent(
    connection: SshConnection, address: SourceAddress, credential: Credential, deadline: float
) -> None:
    agent = paramiko.Agent()
    try:
        keys = agent.get_keys()
        refusal: LoginRefusedError | None = None
        for key in keys:
            try:
                _attempt(connection, address, credential, deadline, key)
            except LoginRefusedError as error:
                refusal = error
                if not connection.transport.is_active():
                    break
            else:
                return
    finally:
        agent.close()
    if refusal is not None:
        raise refusal
    missing = "the SSH agent holds no key" if os.environ.get("SSH_AUTH_SOCK") else "no SSH agent is running"
    raise LoginRefusedError(
        mark(
            "DCC cannot log in: the access key is empty and {missing}. Give a password or a key (key:PATH), "
            "or add a key to the agent."
        ),
        source=address.label,
        missing=Message(missing),
    )


def _attempt(
    connection: SshConnection,
    address: SourceAddress,
    credential: Credential,
    deadline: float,
    proof: str | paramiko.PKey,
) -> None:
    transport = connection.transport
    remaining = deadline - time.monotonic()
    transport.auth_timeout = max(remaining, 0.1)
    by_key = isinstance(proof, paramiko.PKey)
    try:
        if isinstance(proof, paramiko.PKey):
            further = transport.auth_publickey(address.username, proof)
        else:
            further = transport.auth_password(address.username, proof)
    except paramiko.BadAuthenticationType as error:
        wanted = ", ".join(error.allowed_types)
        raise LoginRefusedError(
            mark("the server accepts no login of '{username}' by {means}, only by {wanted}. Change the access key."),
            source=address.label,
            username=address.username,
            means=message(mark("key")) if by_key else message(mark("password")),
            wanted=wanted,
        ) from error
    except paramiko.AuthenticationException as error:
        if time.monotonic() >= deadline:
            raise SourceTimeoutError(
                mark(
                    "the server did not answer the login of '{username}' in time. Try again; "
                    "DCC_LOGIN_TIMEOUT sets the limit."
                ),
                source=address.label,
                username=address.username,
            ) from error
        raise _refusal(address, credential, by_key) from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        reason = redact(describe(error), credential.secrets)
        raise SourceUnreachableError(
            mark("the connection broke off during login ({reason}). Try again."),
            source=address.label,
            reason=Message(reason),
        ) from error
    if further:
        raise LoginRefusedError(
            mark(
                "the server wants more than one proof of '{username}' (next: {further}), which is not "
                "supported. Ask the centre for a login by key alone."
            ),
            source=address.label,
            username=address.username,
            further=", ".join(further),
        )


def _refusal(address: SourceAddress, credential: Credential, by_key: bool) -> LoginRefusedError:
    if by_key:
        text = mark(
            "the server refused '{username}' with {what}. Check the user name, and that the server knows the key."
        )
    else:
        text = mark(
            "the server refused '{username}' with {what}. Check the user name and password (a private key is "
            "written key:PATH)."
        )
    by_agent = by_key and credential.private_key is None
    what = message(mark("an agent's key")) if by_agent else credential.origin
    return LoginRefusedError(text, source=address.label, username=address.username, what=what)
