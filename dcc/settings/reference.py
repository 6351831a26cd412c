"""Settings: where reference data come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from dcc.settings.group import SettingsGroup
from dcc.settings.reference_addresses import parse_source

ReferenceSource = Annotated[str, AfterValidator(parse_source)]
"""A URL or path that reference data are read from."""


class ReferenceSettings(SettingsGroup):
    """Where each set of reference data is read from, and how old it may become."""

    reference_impress: ReferenceSource | None = Field(
        default=None,
        description="IMPReSS: the URL of its API (what answers at <URL>/pipeline/list), or the URL or path of an "
        "impress.json, or a folder with one. By default a small set that comes with the platform, for the demo only.",
    )
    reference_status_codes: ReferenceSource | None = Field(
        default=None, description="Status codes: URL or path of a CSV or TSV file, or a folder with status_codes.csv."
    )
    reference_projects: ReferenceSource | None = Field(
        default=None, description="Projects: URL or path of a CSV or TSV file, or a folder with projects.csv."
    )
    reference_colonies: ReferenceSource | None = Field(
        default=None, description="Colonies: URL or path of a CSV or TSV file, or a folder with colonies.csv."
    )
    reference_strains: ReferenceSource | None = Field(
        default=None,
        description="Strains: URL or path of a CSV or TSV file or of MGI_Strain.rpt, or a folder with one of them.",
    )
    reference_max_age_days: int = Field(
        default=30, ge=1, le=3_650, description="Days after which a set of reference data counts as stale."
    )

    @property
    def reference_sources(self) -> Mapping[str, str | None]:
        """Where each set of reference data is read from, by its name; None for what comes with the platform."""
        return {
            "impress": self.reference_impress,
            "status_codes": self.reference_status_codes,
            "projects": self.reference_projects,
            "colonies": self.reference_colonies,
            "strains": self.reference_strains,
        }
