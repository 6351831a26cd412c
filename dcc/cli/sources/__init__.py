"""Commands on centres and their file sources."""
