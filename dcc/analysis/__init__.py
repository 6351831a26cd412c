"""For analysts: measurements as pandas DataFrames and as files that DuckDB, pandas and others read."""
