"""`dcc qc plot`: a picture of a centre's data."""

from __future__ import annotations

from pathlib import Path

import click

from dcc.cli.shell.context import json_option, open_qc, open_tracker, parse_zip_key, settings_from_environment
from dcc.cli.shell.output import echo_json
from dcc.errors import ConfigurationError

_FORMS = (".svg", ".png")


@click.command()
@click.option("--centre", required=True, help="Data of this centre (ILAR code).")
@click.option("--parameter", help="Of this parameter, such as IMPC_CBC_001_001; without it, experiments per week.")
@click.option("--zip", "zip_name", help="Pick out what this zip action brought: <action>/<file name>.")
@click.option(
    "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write: .svg or .png."
)
@click.option("--language", help="Language of the picture, such as de; by default that of the installation.")
@json_option
def plot(
    centre: str, parameter: str | None, zip_name: str | None, output: Path, language: str | None, as_json: bool
) -> None:
    """Draw a centre's data.

    A numeric parameter by centre, sex and zygosity; a parameter of a series by its increments, for females and males;
    without a parameter, how many experiments there are of each week. Only data are drawn that are current and in which
    no integrity rule found an error. An outlier is a value more than 3 interquartile ranges below the first or above
    the third quartile.

    With --zip, what that archive brought is picked out, and compared with what was there before it.

    \b
    Examples:
      dcc qc plot --centre H --parameter IMPC_CBC_001_001 --output chloride.svg
      dcc qc plot --centre H --zip add/H.2013-10-31.1.impc.zip --output weeks.png

    JSON: {"file", "title", "caption", "rule", "description", "outliers"}: outliers is how many of the new
    values the rule marks

    Exit codes: 0; 2 there are no such data, centre or language, or the file cannot be written; 4 a database cannot be
    reached.
    """
    from dcc.reports.languages import load_catalogue
    from dcc.reports.plots import draw_weeks, font_directory, picture_of_parameter
    from dcc.reports.plots.samples import require_brought
    from dcc.runtime.private_files import SHARED_FILE, in_place_of
    from dcc.tracker.queries.queries import require_centre

    form = output.suffix.lower()
    if form not in _FORMS:
        raise ConfigurationError(f"{output} is neither SVG nor PNG by its name. Name a file that ends in .svg or .png.")
    settings = settings_from_environment()
    catalogue, fonts = load_catalogue(language, settings), font_directory(settings)
    key = None if zip_name is None else parse_zip_key(zip_name)
    with open_tracker(settings) as tracker, tracker.connect() as connection:
        require_centre(connection, centre)
    with open_qc(settings) as engine, engine.connect() as connection:
        if key is not None:
            require_brought(connection, key)
        if parameter is None:
            picture = draw_weeks(connection, catalogue, centre=centre, key=key, fonts=fonts)
        else:
            picture = picture_of_parameter(
                connection, catalogue, centre=centre, parameter_id=parameter, key=key, fonts=fonts
            )
    drawn = picture.svg.encode() if form == ".svg" else picture.png
    try:
        with in_place_of(output, SHARED_FILE) as part:
            part.write_bytes(drawn)
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written: {error}. Name another file.") from error
    if as_json:
        told = {"title": picture.title, "caption": picture.caption, "rule": picture.rule, "description": picture.alt}
        echo_json({"file": str(output), **told, "outliers": picture.outliers})
        return
    click.echo(f"{output} written.")
    click.echo(picture.alt)
    click.echo(f"{picture.caption} {picture.rule}".rstrip())
