"""How long archives and their contents stay in staging, and how they are removed."""
