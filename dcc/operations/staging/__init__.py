"""What staging holds, how long archives and their contents stay there, and how they are removed."""
