"""The phases of a session after validation, each for all documents in turn.

Every step writes to the QC database first and to the tracker after it, and can be repeated: the next session continues
a killed one.
"""
