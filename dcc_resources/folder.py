"""The resource for sources that are folders of this machine."""

from typing import ClassVar

from dcc.sources.base import SourceProtocol
from dcc_resources.file_source import FileSourceResource


class FolderResource(FileSourceResource):
    """Sources that are folders of this machine, including mounted ones: time limits, and the number of archives at
    once.

    `dcc source add` sets each folder's path.
    """

    key: ClassVar[str] = "folder"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.FILE,)
