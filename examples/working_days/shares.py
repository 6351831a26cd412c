"""The protocol `share`: the shares of a file server, each a folder of its name in the directory SHARES_DIRECTORY."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import ClassVar

from dcc.errors import FileMissingError, SourceMisconfiguredError, TransferFailedError
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.base import ActionListing, BlockwiseConnection, SourceAddress
from dcc.sources.listing import Entry, EntryKind, action_listing
from dcc.sources.protocols import ProtocolTraits

_BLOCK = 256 * 1024


class ShareConnection(BlockwiseConnection):
    """The share that is called as the host of the address, with add, edit and delete; see `Connection`.

    Its constructor raises SourceMisconfiguredError if there is none.
    """

    traits: ClassVar[ProtocolTraits] = ProtocolTraits(detects_changed_bytes=True)

    def __init__(self, address: SourceAddress, settings: Settings) -> None:  # noqa: ARG002
        self._label = address.label
        shares = os.environ.get("SHARES_DIRECTORY", "/shares")
        self._folder = folder = Path(shares, address.hostname, address.base_path.strip("/"))
        if not folder.is_dir():
            raise SourceMisconfiguredError(
                f"there is no folder {folder}. Correct SHARES_DIRECTORY.", source=self._label
            )

    def list_action(self, action: Action) -> ActionListing:
        """The archives of an action; see `Connection.list_action`."""
        folder = self._folder / action
        if not folder.is_dir():
            return ActionListing(action, missing=True)
        return action_listing(self._label, action, self._entries(folder), resolve=lambda _link: None)

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _entries(self, folder: Path) -> Iterator[Entry]:
        for path in folder.iterdir():
            if path.is_file():
                status = path.stat()
                yield Entry(os.fsencode(path.name), EntryKind.FILE, status.st_size, int(status.st_mtime))

    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[bytes, None, None]:
        try:
            with (self._folder / action / name).open("rb") as file:
                file.seek(offset)
                while block := file.read(_BLOCK):
                    yield block
                    if size is not None and file.tell() > size:
                        return
        except FileNotFoundError as error:
            raise FileMissingError(f"{name} is not there. Crawl again.", source=self._label) from error
        except OSError as error:
            problem = f"{name} cannot be read ({error.strerror}). Try again."
            raise TransferFailedError(problem, source=self._label) from error
