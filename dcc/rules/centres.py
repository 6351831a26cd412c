"""The names of centres in the register of colonies."""

from __future__ import annotations

REGISTERED_NAMES = {
    "Bcm": "BCM",
    "Gmc": "HMGU",
    "H": "Harwell",
    "Ics": "ICS",
    "J": "JAX",
    "Tcp": "TCP",
    "Ning": "MARC",
    "Rbrc": "RIKEN BRC",
    "Ucd": "UCD",
    "Wtsi": "WTSI",
    "CDTA": "CDTA",
    "Crl": "CRL",
    "Krb": "KMPC",
    "Kmpc": "KMPC",
}
"""The name of each centre in the register of colonies, by its ILAR code; unknown for Ph, Biat and Ccpcz."""

_KNOWN_NAMES = frozenset(name.casefold() for name in REGISTERED_NAMES.values())


def may_be_centre(registered: str, centre: str) -> bool | None:
    """Whether a name in the register is that of a centre; None if unknown.

    The register may also use the ILAR code. Case is ignored, except between ILAR codes.
    """
    if registered == centre:
        return True
    name = REGISTERED_NAMES.get(centre)
    if name is not None:
        return registered.casefold() == name.casefold()
    return False if registered in REGISTERED_NAMES or registered.casefold() in _KNOWN_NAMES else None
