"""A miner's node: it commits to its agent, announces itself, and serves the source to validators."""
