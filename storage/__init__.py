"""Traces: events, trajectories, the database, provenance and export."""
