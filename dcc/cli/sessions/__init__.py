"""Commands that run a session."""
