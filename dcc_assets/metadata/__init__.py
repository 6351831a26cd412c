"""What Dagster's pages show beside the events of assets and checks: facts, causes, links."""
