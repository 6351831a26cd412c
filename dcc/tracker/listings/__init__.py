"""Listings of sources: compared with what is known, and recorded in the tracker."""
