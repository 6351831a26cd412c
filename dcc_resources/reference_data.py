"""The resource for reference data: where each set is read from."""

from typing import ClassVar, Final

from dcc_resources.platform_resource import PlatformResource, setting

_NO_QUERY: Final = r"[^?]*"


class ReferenceDataResource(PlatformResource):
    """Reference data: where IMPReSS and the registries are read from, within which time, and how old they may become.

    An address may hold a token, so none is shown here: `dcc reference list` says what each set was read from.
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
