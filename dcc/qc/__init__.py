"""The QC database: the content of valid documents, as rows that can be queried."""
