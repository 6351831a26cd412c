"""Causes, not symptoms: what thousands of findings and errors have in common, who must act, and what one fix clears."""
