"""The resources of the code location, by name."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dagster import EnvVar

from dcc.settings import Settings, variable_of
from dcc_resources.file_sources import FolderResource, FtpResource, HttpResource, SftpResource
from dcc_resources.platform_resource import PlatformResource, is_secret, is_setting, setting_of
from dcc_resources.services import ReferenceDataResource
from dcc_resources.session import OF_SESSIONS, SessionResource

SOURCES = (SftpResource, FtpResource, HttpResource, FolderResource)


def platform_resources(settings: Settings | None = None) -> Mapping[str, Any]:
    """The resources by name. With `settings`, their page and the launchpad show the values of these.

    Dagster passes configured values only to the resources that a run itself configures, so all resources that the
    session depends on can be configured for one run.
    """
    alone = {
        kind.key: kind.configure_at_launch(**dict(_values(kind, settings)))
        for kind in (*SOURCES, *OF_SESSIONS, ReferenceDataResource)
    }
    of_session: Mapping[str, Any] = {kind.key: alone[kind.key] for kind in OF_SESSIONS}
    values: Mapping[str, Any] = dict(_values(SessionResource, settings))
    return alone | {SessionResource.key: SessionResource(**of_session, **values)}


def _values(kind: type[PlatformResource], settings: Settings | None) -> Iterator[tuple[str, Any]]:
    """The settings' values for a resource's fields; for secrets, the environment variable."""
    if settings is None:
        return
    for name, field in kind.model_fields.items():
        if not is_setting(field):
            continue
        value = getattr(settings, setting_of(field))
        if is_secret(field):
            variable = variable_of(setting_of(field))
            given = next((known for known, text in os.environ.items() if known.upper() == variable and text), None)
            if given is not None:
                yield name, EnvVar(given)
        elif value not in (None, ""):
            yield name, str(value) if isinstance(value, Path) else value
