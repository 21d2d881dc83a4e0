"""Processes and the chain: the only place where the parts are put together."""
