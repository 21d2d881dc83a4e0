from __future__ import annotations
from dataclasses import dataclass
@dataclass(frozen=True, slots=True)
class Check:
    name: str
    ok: bool
    detail: str
@dataclass(frozen=True, slots=True)
class Probe:
    ok: bool
    checks: tuple[Check, ...]
async def probe_sandbox(sandbox) -> Probe: ...
