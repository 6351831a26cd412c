"""What connections have in common that read files in blocks: transfers, and checksums beside archives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator
from contextlib import closing

from dcc.errors import FileMissingError
from dcc.naming import Action
from dcc.sources.base import Block, Connection
from dcc.sources.md5_sidecar import MAX_SIDECAR_BYTES, parse_md5, sidecar


class BlockwiseConnection(Connection):
    """A connection by a protocol that cannot make a file's listed time a condition of its transfer."""

    _label: str

    @abstractmethod
    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[Block, None, None]:
        """The bytes of a file from `offset` on, up to the block that exceeds `size`. Raises as `Connection.fetch`."""

    def fetch(
        self,
        action: Action,
        name: str,
        sink: Callable[[Block], object],
        *,
        size: int | None,
        offset: int = 0,
        modified: int | None = None,  # noqa: ARG002 - the protocol cannot make it a condition
    ) -> None:
        """Pass the bytes of a file on to `sink`; see `Connection.fetch`."""
        # Closed at once when `sink` fails: later it would close what the next transfer is using.
        with closing(self._blocks(action, name, offset, size)) as blocks:
            for block in blocks:
                sink(block)

    def read_md5(self, action: Action, name: str) -> str | None:
        """The checksum published beside an archive; see `Connection.read_md5`."""
        content = bytearray()
        try:
            # By fetching it, for a block is good only until the next one.
            self.fetch(action, sidecar(name), content.extend, size=MAX_SIDECAR_BYTES)
        except FileMissingError:
            return None
        return parse_md5(bytes(content), name, self._label)
