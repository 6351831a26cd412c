"""TLS certificates of sources: which are trusted, in which form, and what happens with another one.

By default, a certificate must be signed by an authority of the system (or of DCC_TLS_CA_FILE) and be valid for the host
name. A source can name authorities of its own, which replace those, and fingerprints of the server's own certificate.
Then it must be one of these, whatever its host name, dates and signer, unless the source names authorities too. Nothing
is ever trusted because it is the first.
"""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dcc.errors import CertificateChangedError, CertificateRefusedError, ConfigurationError
from dcc.messages import Message, mark, message
from dcc.settings import Settings
from dcc.sources.base import SourceAddress

MAX_AUTHORITIES = 20
_MAX_FILE_BYTES = 1024 * 1024
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_DIGITS = 64


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority's certificate, in PEM, and its fingerprint."""

    pem: str
    fingerprint: str


def fingerprint_of(certificate: bytes) -> str:
    """The fingerprint of a certificate in DER, as openssl and browsers show it: `SHA256:3A:5F:...`, 32 bytes."""
    return "SHA256:" + hashlib.sha256(certificate).digest().hex(":").upper()


def parse_fingerprint(text: str) -> str:
    """A fingerprint as `fingerprint_of` writes it, from 64 hexadecimal digits with or without colons and `SHA256:`.

    Raises ConfigurationError.
    """
    digits = re.sub(r"^sha-?256( fingerprint)?[:=]", "", text.strip(), flags=re.IGNORECASE)
    digits = re.sub(r"[:\s]", "", digits).upper()
    if not re.fullmatch(rf"[0-9A-F]{{{_DIGITS}}}", digits):
        raise ConfigurationError(
            f"{text!r} is no SHA-256 fingerprint of a certificate. Write SHA256: and 64 hexadecimal digits, as "
            "`openssl x509 -noout -fingerprint -sha256` prints them."
        )
    return "SHA256:" + bytes.fromhex(digits).hex(":").upper()


def read_authorities(path: Path) -> list[Authority]:
    """The certificates in a PEM file. Raises ConfigurationError for an unreadable file or one without any."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE_BYTES).decode("ascii", "replace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its path holds a null character"
        raise ConfigurationError(f"The certificate file {path} cannot be read ({reason}). Correct its path.") from error
    blocks = _PEM.findall(text)
    if not 1 <= len(blocks) <= MAX_AUTHORITIES:
        raise ConfigurationError(
            f"The file {path} holds {len(blocks)} certificates in PEM, and should hold 1 to {MAX_AUTHORITIES}: those "
            "of the authorities that sign the server's certificate. DCC_TLS_CA_FILE takes a whole bundle."
        )
    try:
        encoded = [ssl.PEM_cert_to_DER_cert(block) for block in blocks]
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=b"".join(encoded))
    except (ValueError, OSError) as error:
        raise ConfigurationError(f"The file {path} holds a damaged certificate. Ask for a whole one.") from error
    authorities = [Authority(ssl.DER_cert_to_PEM_cert(der).strip(), fingerprint_of(der)) for der in encoded]
    return list({authority.fingerprint: authority for authority in authorities}.values())


def tls_context(settings: Settings) -> ssl.SSLContext:
    """A context that verifies certificates by the authorities of the settings or the system.

    Raises ConfigurationError if the authorities cannot be read.
    """
    try:
        return _at_least_1_2(ssl.create_default_context(cafile=settings.tls_ca_file))
    except OSError as error:
        raise ConfigurationError(
            f"The certificate authorities in {settings.tls_ca_file} cannot be read ({error.strerror or error}). "
            "Correct DCC_TLS_CA_FILE."
        ) from error


def unverified_context() -> ssl.SSLContext:
    """A context that accepts any certificate: for showing it, and for comparing its fingerprint."""
    context = _at_least_1_2(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _at_least_1_2(context: ssl.SSLContext) -> ssl.SSLContext:
    # Older ones are broken, but OpenSSL's build or configuration may have permitted them.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class ServerCertificates:
    """Checks the certificates of one server. Use `context` for every connection to it.

    Call `check` after every handshake, before anything is sent.
    """

    def __init__(
        self, label: Message | str, context: ssl.SSLContext, pinned: Sequence[str] = (), source_id: int = 0
    ) -> None:
        self.context = context
        self._label, self._pinned, self._source_id = label, tuple(pinned), source_id

    @classmethod
    def of_source(cls, address: SourceAddress, settings: Settings) -> ServerCertificates:
        """For a source. Raises ConfigurationError if the authorities cannot be read."""
        pinned = [parse_fingerprint(text) for text in address.tls_fingerprints]
        if address.tls_authorities:
            context = _at_least_1_2(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
            # Named certificates are trusted, roots or not.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            try:
                context.load_verify_locations(cadata="\n".join(address.tls_authorities))
            except (ValueError, OSError) as error:
                raise ConfigurationError(
                    "The certificate authorities kept for the file source are damaged. "
                    f"Name them again: dcc source change {address.id} --tls-ca FILE."
                ) from error
        else:
            context = unverified_context() if pinned else tls_context(settings)
        return cls(address.label, context, pinned, address.id)

    def check(self, secure: ssl.SSLSocket) -> None:
        """Refuse a server whose certificate is not pinned, if any is. Raises CertificateChangedError."""
        if not self._pinned:
            return
        shown = secure.getpeercert(binary_form=True)
        fingerprint = "none" if shown is None else fingerprint_of(shown)
        if fingerprint not in self._pinned:
            accept = f"dcc source change {self._source_id} --tls-fingerprint {fingerprint}"
            text = mark(
                "the server shows the TLS certificate {fingerprint}, but the one accepted is {pinned}. Nothing was "
                "sent to it. Either its certificate was renewed or somebody stands in between: ask the centre's "
                "administrator for the fingerprint, and only if it is this one: {accept}"
            )
            known = {"fingerprint": fingerprint, "pinned": ", ".join(self._pinned), "accept": accept}
            raise CertificateChangedError(text, source=self._label, **known)

    def check_same(self, secure: ssl.SSLSocket, control: ssl.SSLSocket) -> None:
        """Refuse a second connection that reaches another server than the first. Raises CertificateChangedError."""
        first, second = (connection.getpeercert(binary_form=True) for connection in (control, secure))
        if first is None or first != second:
            expected, shown = ("none" if one is None else fingerprint_of(one) for one in (first, second))
            text = mark(
                "the server shows the TLS certificate {expected}, but where it transfers files {shown}. Nothing was "
                "taken from there. Ask whoever runs the server what stands in between."
            )
            raise CertificateChangedError(text, source=self._label, expected=expected, shown=shown)

    def refused(self, error: ssl.SSLCertVerificationError, look: Callable[[], bytes | None]) -> CertificateRefusedError:
        """The error for a certificate that could not be verified; `look` requests it from the server once more."""
        certificate = look()
        shown = None if certificate is None else fingerprint_of(certificate)
        what = message(mark("the server's TLS certificate"))
        if shown is not None:
            what = message(mark("the server's TLS certificate {fingerprint}"), fingerprint=shown)
        change = f"dcc source change {self._source_id}"
        details = {"command": f"{change} --tls-ca FILE", "pin": f"{change} --tls-fingerprint {shown}"}
        text = mark(
            "{certificate} could not be verified ({reason}). Nothing was sent to it. Ask the centre for a valid one, "
            "or name the authority that signed it: {command} (DCC_TLS_CA_FILE: for all sources). Or compare the "
            "fingerprint with the one that the centre's administrator gives, and only if they agree: {pin}"
        )
        if not self._source_id:
            details = {}
            text = mark(
                "{certificate} could not be verified ({reason}). Nothing was sent to it. Have it corrected, or name "
                "the authority that signed it in DCC_TLS_CA_FILE."
            )
        elif shown is None:
            del details["pin"]
            text = mark(
                "{certificate} could not be verified ({reason}). Nothing was sent to it. Ask the centre for a valid "
                "one; or name the authority that signed it: {command} (DCC_TLS_CA_FILE: for all sources)"
            )
        reason = Message(error.verify_message)
        refusal = CertificateRefusedError(text, source=self._label, certificate=what, reason=reason, **details)
        refusal.fingerprint = shown
        return refusal
