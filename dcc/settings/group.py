"""What all groups of settings have in common, and kinds of values that several of them hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar, Final, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr

from dcc.redaction import keep_secrets_of_url

MEGABYTE: Final = 1024 * 1024
_Value = TypeVar("_Value")
PREFIX: Final = "DCC_"
"""What the environment variables of all settings begin with, and nothing else may."""


def absolute(path: Path) -> Path:
    """A path, absolute whatever the working directory becomes; `~` is the user's home directory. Raises ValueError."""
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError("a path must not begin with the home directory (~) of a user that is not known") from error


def _refuse_url(given: _Value) -> _Value:
    """Keep a path; raise ValueError, which repeats nothing of it, for a URL: it would become folders of its parts."""
    if isinstance(given, str) and "://" in given:
        raise ValueError("a path must be on a disk of this machine; only DCC_STORE and DCC_ARCHIVE_REPLICAS take s3://")
    return given


AbsolutePath = Annotated[Path, BeforeValidator(_refuse_url), AfterValidator(absolute)]
"""A path of a setting, made absolute; no URL."""


def checked_by(parse: Callable[[_Value], object]) -> Callable[[_Value | None], _Value | None]:
    """A validator that keeps a value as it is; `parse` raises ValueError for a wrong one."""

    def check(value: _Value | None) -> _Value | None:
        if value is not None:
            parse(value)
        return value

    return check


def url_checked_by(check: Callable[[str], object]) -> Callable[[SecretStr | None], SecretStr | None]:
    """The same for a URL, which is kept as it is; from then on its password is removed from log records and errors."""

    def check_url(url: SecretStr) -> None:
        keep_secrets_of_url(url.get_secret_value())
        check(url.get_secret_value())

    return checked_by(check_url)


class SettingsGroup(BaseModel):
    """Some of the settings, of one subject; `Settings` has those of all groups. Docstrings of fields describe them.

    `section` is its name in the configuration file, which no setting has, `title` that on the page of settings.
    """

    section: ClassVar[str]
    title: ClassVar[str]

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        validate_default=True,
        # Only `Settings` is made, which has them all.
        defer_build=True,
        use_attribute_docstrings=True,
    )
