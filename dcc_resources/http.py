"""The resource for sources on web servers."""

from typing import ClassVar

from dcc.sources.base import SourceProtocol
from dcc_resources.file_source import FileServerResource
from dcc_resources.platform_resource import setting


class HttpResource(FileServerResource):
    """Sources on web servers, http or https: time limits, connections and trusted authorities.

    `dcc source add` sets each source's address and access; certificates that are pinned there replace the authorities.
    """

    key: ClassVar[str] = "http"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.HTTP, SourceProtocol.HTTPS)

    tls_ca_file: str | None = setting(
        "tls_ca_file", "Certificate authorities for https, a file in PEM; by default the system's."
    )
    largest_unsized: int | None = setting("max_unsized_bytes")
