"""A local chain node that the unmodified Bittensor SDK talks to."""
