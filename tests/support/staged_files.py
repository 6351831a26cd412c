"""Files of staging that differ by the day only."""

import re
from pathlib import Path
from zlib import crc32

from dcc.qc.rows.prepared_file import _CHECKSUM_BYTES, _CHECKSUM_OF_WHOLE
from dcc.store.staging import PREPARED_FILE


def without_day(place: str, content: bytes) -> bytes:
    """A file of staging; a prepared one without the day that it was made for, and the checksum if that is right."""
    if not Path(place).name.startswith(PREPARED_FILE):
        return content
    facts = content[:-_CHECKSUM_BYTES] if f"{crc32(content):08x}" == _CHECKSUM_OF_WHOLE else content
    return re.sub(rb'"basis": "\d{4}-\d\d-\d\d ', b'"basis": "', facts)
