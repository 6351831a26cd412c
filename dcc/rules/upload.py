"""The rules whose findings are made as a document is applied to the QC database.

S13 and E9 are the field's rules; the others are this platform's own:

* Q1 a text is longer than its column: what holds it is refused, never cut;
* Q2 a line or housing to be added is there already, or is named twice in the document;
* Q3 what is to be edited or deleted is not there, or is named twice in the document;
* Q4 a specimen to be deleted still has experiments;
* Q5 the document is older than what is uploaded already of its centre (a warning: it is applied);
* Q6 the document has data of a centre that its archive does not speak for: an edit or delete is refused, an addition
  is held (a warning).
"""

from __future__ import annotations

from typing import Final

UPLOAD_RULES: Final = ("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "S13", "E9")
"""The rules whose findings the upload makes."""

LATE: Final = "Q5"
"""The rule of documents that come after newer ones of their centre."""

OWNERSHIP: Final = "Q6"
"""The rule of documents with data of a centre that their archive does not speak for."""

NOT_STORED: Final = "Q1"
"""The rule by which nothing of an entity is stored."""
