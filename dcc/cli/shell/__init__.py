"""What all commands are made of: options, output, errors, and what comes next."""
