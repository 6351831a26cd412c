"""Data contexts and overviews: what wranglers check and analysts compare, kept up with what documents change."""
