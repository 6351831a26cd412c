"""The platform beside the shell tools that do the same work: `make bench`."""
