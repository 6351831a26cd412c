"""Commands that install, maintain and restore the platform."""
