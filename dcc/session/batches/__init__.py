"""Batches of archives that workers, on this machine or others, fetch and prepare for a session, which applies them.

Replays have batches of stored archives prepared in the same way: `dcc.replay.batches`.

Workers and session share the tracker and the object store, and no disk. A worker leaves each archive with its findings
in the store. The session takes it from there as if from the archive's source, and does everything itself that no worker
did. So the death of a worker loses nothing.
"""
