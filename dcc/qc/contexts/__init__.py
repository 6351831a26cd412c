"""Data contexts and overviews, which wranglers check and analysts compare, updated when documents change data."""
