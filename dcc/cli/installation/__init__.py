"""Commands that install, look after and restore the platform."""
