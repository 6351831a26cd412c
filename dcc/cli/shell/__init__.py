"""What all commands share: options, output, errors, and the suggestion of the next command."""
