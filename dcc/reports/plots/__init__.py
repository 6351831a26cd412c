"""What data look like, as pictures for reports and for Dagster's pages: made on demand, on no session's path.

Only values that are current and that the integrity rules found no error with are drawn. A picture is of bounded size,
time and memory, whatever the number of measurements: of many, a sample is drawn, always the same one.
"""
