"""The phases of a session after validation: upload, data, context, overview and qc, each for all documents in turn.

The QC database is written first and the tracker after it; every step can be done again, so that what a killed session
left is taken up by the next one.
"""
