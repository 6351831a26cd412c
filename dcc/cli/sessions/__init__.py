"""Commands that run and list sessions."""
