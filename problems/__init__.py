"""Environments, problems and rule outcomes: the world an agent acts in."""
