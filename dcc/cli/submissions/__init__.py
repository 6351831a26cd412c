"""Commands on what became of archives, and for centres before they upload."""
