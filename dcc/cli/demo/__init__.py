"""The demonstration, and the submissions that it and the tests make."""
