from __future__ import annotations

import pytest

from tests.arena.stores import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
