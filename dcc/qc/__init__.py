"""The QC database: what valid documents say, as rows that can be queried."""
