"""What centres are called where colonies are registered."""

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
"""The name of each centre in the register of colonies, by its ILAR code; for Ph, Biat and Ccpcz it is not known."""

_KNOWN_NAMES = frozenset(name.casefold() for name in REGISTERED_NAMES.values())


def may_be_centre(registered: str, centre: str) -> bool | None:
    """Whether a name in the register is that of a centre; None where that cannot be told.

    The register may also use the ILAR code. Capitals do not count, except between ILAR codes.
    """
    if registered == centre:
        return True
    name = REGISTERED_NAMES.get(centre)
    if name is not None:
        return registered.casefold() == name.casefold()
    return False if registered in REGISTERED_NAMES or registered.casefold() in _KNOWN_NAMES else None
