"""Metadata of asset and check events: facts, causes, links."""
