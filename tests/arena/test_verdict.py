from __future__ import annotations

import pytest

from arena.verdict import Unscored


def test_an_unscored_verdict_cannot_become_a_number() -> None:
    verdict = Unscored("the provider was down")
    assert not hasattr(verdict, "outcome")
    assert not any(isinstance(getattr(verdict, name), (int, float)) for name in verdict.__slots__)
    with pytest.raises(TypeError):
        float(verdict)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sum([verdict])  # type: ignore[list-item]
