"""Channels: e-mail, webhook and log."""
