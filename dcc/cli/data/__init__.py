"""Commands on the data in the QC database."""
