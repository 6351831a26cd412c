"""The resource for file sources that are folders of this machine."""

from typing import ClassVar

from dcc.sources.base import SourceProtocol
from dcc_resources.file_source import FileSourceResource


class FolderResource(FileSourceResource):
    """File sources that are folders of this machine, mounted ones among them: time limits, and archives at once.

    Where each folder is, `dcc source add` says.
    """

    key: ClassVar[str] = "folder"
    protocols: ClassVar[tuple[SourceProtocol, ...]] = (SourceProtocol.FILE,)
