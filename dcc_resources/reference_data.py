"""The resource for reference data: the sources of each set."""

from typing import ClassVar, Final

from dcc_resources.platform_resource import PlatformResource, setting

_NO_QUERY: Final = r"[^?]*"


class ReferenceDataResource(PlatformResource):
    """Reference data: where IMPReSS and the registries are read from, with time limits, and how old they may become.

    An address may contain a token, so none is shown here: `dcc reference list` names the source of each set.
    """

    key: ClassVar[str] = "reference_data"

    impress: str | None = setting("reference_impress", secret=True, plain=_NO_QUERY)
    status_codes: str | None = setting("reference_status_codes", secret=True, plain=_NO_QUERY)
    projects: str | None = setting("reference_projects", secret=True, plain=_NO_QUERY)
    colonies: str | None = setting("reference_colonies", secret=True, plain=_NO_QUERY)
    strains: str | None = setting("reference_strains", secret=True, plain=_NO_QUERY)
    max_age_days: int | None = setting("reference_max_age_days")
    connect_timeout: float | None = setting("connect_timeout")
    read_timeout: float | None = setting("list_timeout", "Seconds for reading a set of reference data.")
