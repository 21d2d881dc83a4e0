"""The judge's factor on success. Pure.

A grade below `FULL_GRADE` costs an agent part of its success; at and above it, nothing. The line is
`0.3 + 0.875 * grade`, so that an answer reached without visible reasoning still keeps 0.3 of its worth: the
outcome is real, only the trace is worth little.
"""

from __future__ import annotations

FLOOR = 0.3
"""The coefficient at grade 0."""
FULL_GRADE = 0.8
"""The grade from which the coefficient is 1."""


def coefficient(grade: float) -> float:
    """The factor in [FLOOR, 1] for a grade in [0, 1]: linear to 1.0 at `FULL_GRADE`, and 1.0 above.

    Raises ValueError for a grade outside [0, 1] (NaN included): a judge that could not answer has no grade,
    and must not be given one here.
    """
    if not 0.0 <= grade <= 1.0:
        raise ValueError(f"a grade lies in [0, 1], got {grade!r}; an unjudged trace has no coefficient")
    if grade >= FULL_GRADE:
        return 1.0
    return FLOOR + (1.0 - FLOOR) * grade / FULL_GRADE
