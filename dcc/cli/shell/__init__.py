"""Common parts of all commands: options, output, errors, and the suggestion of the next command."""
