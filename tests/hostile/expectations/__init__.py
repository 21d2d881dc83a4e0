"""What must be seen of each hostile agent, in one module for each kind of attack.

A check bears the name of its agent's file. Importing this package fills the registry.
"""

import importlib
import pkgutil

from tests.hostile.seen import EXPECTATIONS, Expectation

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def all_expectations() -> list[Expectation]:
    """All of them, by category and name."""
    return sorted(EXPECTATIONS.values(), key=lambda each: (each.category, each.name))
