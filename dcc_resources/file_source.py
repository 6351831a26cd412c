"""Common fields of the resources of all kinds of sources: time limits and connections."""

from typing import ClassVar

from dcc.settings import Settings
from dcc.sources.base import SourceProtocol
from dcc_resources.platform_resource import PlatformResource, setting


class FileSourceResource(PlatformResource):
    """How sources of one kind are listed and downloaded from."""

    protocols: ClassVar[tuple[SourceProtocol, ...]]

    connections: int | None = setting("downloads_per_source")
    failure_limit: int | None = setting("source_failure_limit")
    list_timeout: float | None = setting("list_timeout")
    download_timeout: float | None = setting("download_timeout")
    min_download_speed: int | None = setting("min_download_speed")

    def applied_to(self, settings: Settings) -> Settings:
        """These settings with the given fields, for sources of this kind alone."""
        return settings.changed_for(self.protocols, self._given(), self._field_of)


class FileServerResource(FileSourceResource):
    """How to connect to sources on servers."""

    connect_timeout: float | None = setting("connect_timeout")
    login_timeout: float | None = setting("login_timeout")
    idle_timeout: float | None = setting("idle_timeout")
