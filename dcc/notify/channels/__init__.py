"""Channels: e-mail, webhook and log; and how session reports are sent."""
