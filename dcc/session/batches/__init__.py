"""Archives fetched and prepared in batches by workers, of this machine or others, for a session that then applies them.

Workers and session share the tracker and the object store, and no disk. A worker leaves each archive in the store with
what it found; the session takes it from there as it would from the archive's source, and does by itself what no worker
left. So nothing depends on a worker's end.
"""
