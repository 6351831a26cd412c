"""Jinja2 templates: those that come with the platform, and a DCC's own in their place.

What templates print is escaped, and text is shown as it is written: characters that would not be seen, or turn the
direction of writing, stand as `\\uNNNN`. A name that a template misspells is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined, TemplateError, UndefinedError
from markupsafe import Markup

from dcc_resources.errors import ConfigurationError
from dcc_resources.legible_text import legible

SHIPPED: Final = Path(__file__).parent / "templates"


def render(name: str, values: Mapping[str, Any], *, shipped: Path = SHIPPED, own: Path | None = None) -> str:
    """The template `name`, such as `reports/submission.html`, filled in.

    It is taken from the directory `own` (DCC_TEMPLATES_DIRECTORY) if that has it, else from `shipped`. Templates whose
    names end with `.html` have what they print escaped. Raises ConfigurationError that names the template when it is
    missing or cannot be filled in.
    """
    try:
        return _environment(shipped, own).get_template(name).render(**values)
    except (TemplateError, UnicodeDecodeError) as error:
        raise ConfigurationError(_what_is_wrong(name, own, error)) from error


def _what_is_wrong(name: str, own: Path | None, error: Exception) -> str:
    line = getattr(error, "lineno", None)
    place = "" if line is None else f", line {line}"
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    what = "uses what there is not" if isinstance(error, UndefinedError) else "cannot be used"
    mend = (
        "Reinstall the platform"
        if own is None
        else f"Correct it in {own} (DCC_TEMPLATES_DIRECTORY), or remove it from there"
    )
    return f"The template {getattr(error, 'name', None) or name}{place} {what}: {said}. {mend}."


@lru_cache(maxsize=8)
def _environment(shipped: Path, own: Path | None) -> Environment:
    loaders = [FileSystemLoader(directory) for directory in (own, shipped) if directory is not None]
    return Environment(
        loader=ChoiceLoader(loaders),
        autoescape=_is_html,  # noqa: S701
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )


def _is_html(name: str | None) -> bool:
    return name is not None and name.endswith(".html")


def _shown(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    # Not strings alone: a zip's key is a text from outside as well.
    return legible(" ".join(str(value).splitlines()))
