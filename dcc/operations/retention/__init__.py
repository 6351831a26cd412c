"""How long archives and their contents stay in staging, and how what is not needed any more is removed from there."""
