"""What processes leave behind: files, tables and outputs, to be looked through for secrets."""

import re
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import MetaData, create_engine, make_url, select

from dcc.redaction import forms_of
from tests.support.databases import PASSWORD, is_sqlite


@dataclass
class Left:
    """What was left behind, by where."""

    texts: dict[str, bytes] = field(default_factory=dict)

    def add(self, where: str, content: str | bytes) -> None:
        self.texts[where] = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content

    def add_files(self, root: Path) -> None:
        for path in root.rglob("*"):
            if path.is_file():
                self.add(f"file {path.relative_to(root)}", path.read_bytes())

    def add_tables(self, url: str, *, without: str = "") -> None:
        address = make_url(url)
        if is_sqlite(url):
            engine = create_engine(address)
        else:
            proof = {"password": PASSWORD.encode()}
            engine = create_engine(address.set(drivername="mysql+pymysql"), connect_args=proof)
        metadata = MetaData()
        metadata.reflect(engine)
        with closing(engine.connect()) as connection:
            for table in metadata.sorted_tables:
                columns = [column for column in table.columns if column.name != without]
                rows = "\n".join(str(tuple(row)) for row in connection.execute(select(*columns)))
                self.add(f"table {table.name} of {engine.url.database}", rows)
        engine.dispose()

    def places_of(self, secret: str) -> list[str]:
        """Where a secret is, in any of its forms."""
        forms = [form.encode() for form in forms_of(secret)]
        found = re.compile(b"|".join(map(re.escape, forms)), re.IGNORECASE)
        return [where for where, text in self.texts.items() if found.search(text)]
