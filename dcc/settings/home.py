"""Whose DCC_HOME is, and whether this user can work in it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from dcc.errors import ConfigurationError


def require_own_home(home: Path) -> None:
    """Raise ConfigurationError where DCC_HOME is there and this user cannot work in it."""
    try:
        owner = home.stat().st_uid
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigurationError(
            f"DCC_HOME, {home}, cannot be looked at ({error.strerror}). Set DCC_HOME to a directory of your own, or "
            "run the command as the user that it belongs to."
        ) from error
    if owner != os.geteuid() and not os.access(
        home, os.R_OK | os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    ):
        raise ConfigurationError(
            f"DCC_HOME, {home}, belongs to the user {user_named(owner)}, and this user may not work in it. Set "
            f"DCC_HOME to a directory of your own, or run the command as that user: sudo -u {user_named(owner)} dcc ..."
        )


def owner_other_than_root(home: Path) -> str | None:
    """Whose DCC_HOME is where root works in that of another user; None elsewhere."""
    try:
        owner = home.stat().st_uid
    except OSError:
        return None
    return user_named(owner) if os.geteuid() == 0 and owner != 0 else None


def user_named(number: int) -> str:
    """The name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"
