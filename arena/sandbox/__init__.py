"""Backends that run foreign code, and the probe that decides which may."""
