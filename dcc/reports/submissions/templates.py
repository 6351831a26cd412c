"""Jinja2 templates: those that come with the platform, and a DCC's own in their place.

What templates print is escaped, and text is shown as it is written: characters that would not be seen, or turn the
direction of writing, stand as `\\uNNNN`. A name that a template misspells is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from dcc.errors import ConfigurationError
from dcc.reports.own_directories import TEMPLATES, own_files
from dcc.runtime.legible_text import legible

SHIPPED: Final = Path(__file__).parent / "templates"


def render(name: str, values: Mapping[str, Any], *, shipped: Path = SHIPPED, own: Path | None = None) -> str:
    """The template `name`, such as `reports/submission.html`, filled in.

    It is taken from the directory `own` (DCC_TEMPLATES_DIRECTORY) if that has it, else from `shipped`. Templates whose
    names end with `.html` have what they print escaped. Raises ConfigurationError that names the template, and the
    line if any, when it is missing or cannot be filled in, or the directory if it cannot be read. What else a template
    of `shipped` raises is a fault of ours.
    """
    if own is not None:
        # Else Jinja2 takes a misspelt directory for one without templates.
        own_files(own, TEMPLATES)
    try:
        return _environment(shipped, own).get_template(name).render(**values)
    except Exception as error:
        is_in_own = own is not None and bool(_place_in(own, error) or os.access(own / name, os.F_OK))
        if is_in_own or isinstance(error, jinja2.TemplateError | UnicodeDecodeError):
            raise ConfigurationError(_what_is_wrong(name, own, error)) from error
        raise


def prose(text: object) -> Markup:
    """A text as HTML, with what stands between backticks, such as a command, as code."""
    pieces = _printable(text).split("`")
    if len(pieces) % 2 == 0:
        return escape("`".join(pieces))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece) for place, piece in enumerate(pieces)
    )


def _what_is_wrong(name: str, own: Path | None, error: Exception) -> str:
    place = _place_in(own, error)
    if isinstance(error, jinja2.TemplateSyntaxError):
        place = f"{error.name or name}, line {error.lineno}"
    elif isinstance(error, jinja2.TemplateNotFound):
        place = str(error.name or name)
    reason = "".join(str(error).splitlines()[:1])
    if not isinstance(error, jinja2.TemplateError) or not reason:
        reason = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    what = "uses what there is not" if isinstance(error, jinja2.UndefinedError) else "cannot be used"
    mend = "Reinstall the platform" if own is None else f"Correct it in {own} ({TEMPLATES}), or remove it from there"
    return f"The template {place or name} {what}: {reason}. {mend}."


def _place_in(own: Path | None, error: BaseException) -> str:
    """The template of a DCC's own that an error comes from, with the line; empty if it comes from none."""
    place, trace = "", error.__traceback__
    while own is not None and trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(own):
            place = f"{file.relative_to(own)}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place


@lru_cache(maxsize=8)
def _environment(shipped: Path, own: Path | None) -> jinja2.Environment:
    loaders = [jinja2.FileSystemLoader(directory) for directory in (own, shipped) if directory is not None]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=lambda name: name is not None and name.endswith(".html"),  # noqa: S701
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    environment.globals["prose"] = prose
    return environment


def _printable(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    # Not strings alone: a zip's key is a text from outside as well.
    return legible(" ".join(str(value).splitlines()))
