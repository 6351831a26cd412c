"""Replay: stored archives judged under proposed schemas, reference data or rules, beside their present verdicts."""
