"""The validators of the subnet as a miner sees them: who they are, and what they say of it.

All that is asked goes to addresses that validators announced themselves, so it is bounded as everything is
that goes to a stranger (`neurons.fetching`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from pydantic import BaseModel, ValidationError

from arena.api.pages import Page
from arena.api.schemas import (
    CollectionAttempt,
    Feedback,
    RulesAnswer,
    SubmissionStatus,
    SubmissionSummary,
)
from arena.rules import Rules
from neurons.chain_types import Endpoint, Subnet
from neurons.fetching import FetchFailed, fetch, reachable
from neurons.signing import HotkeyAuth
from neurons.wallets import Wallet, is_local

_ANSWER_BYTES = 1 << 20
_DEADLINE_S = 15.0
_AT_ONCE = 8
_METAGRAPH_S = 30.0
_PAGES = 20

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Validator:
    """A hotkey that holds a permit and has announced where it answers. `stake` is in the subnet's alpha."""

    hotkey: str
    stake: float
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class Seen:
    """What one validator says of one of our sources.

    `state` is accepted, refused, withdrawn, `not here`, or `unreachable`; `detail` says why.
    """

    validator: str
    url: str
    state: str
    detail: str = ""
    submission_id: UUID | None = None
    race: int | None = None
    phase: str | None = None
    done: int = 0
    episodes: int = 0
    qualifying_score: float | None = None
    may_submit_at: datetime | None = None
    """When the cooldown of what it took last ends."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return found


async def validators(chain: Subnet, *, own: str) -> list[Validator]:
    """Everybody but `own` with a permit and an endpoint that may be reached, the largest stake first.

    Raises ChainError.
    """
    graph = await chain.metagraph(fresh_s=_METAGRAPH_S)
    local = is_local(chain.network)
    found = [
        Validator(n.hotkey, n.stake, n.endpoint)
        for n in graph.neurons
        if n.validator_permit
        and n.endpoint is not None
        and n.hotkey != own
        and reachable(n.endpoint, local=local)
    ]
    return sorted(found, key=lambda v: (-v.stake, v.hotkey))


async def permitted(chain: Subnet, hotkey: str) -> bool:
    """Whether the hotkey holds a validator permit. Raises ChainError."""
    neuron = (await chain.metagraph(fresh_s=_METAGRAPH_S)).of(hotkey)
    return neuron is not None and neuron.validator_permit


async def of_all(known: Sequence[S], ask: Callable[[S], Awaitable[T]]) -> list[T]:
    """What `ask` gives for each, some at a time, in the order given."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(validator: S) -> T:
        async with turns:
            return await ask(validator)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(validator)) for validator in known]
    return [task.result() for task in tasks]


class Asking:
    """Asks validators about our own submissions, signed with the hotkey."""

    def __init__(self, wallet: Wallet, *, local: bool) -> None:
        self._wallet = wallet
        self._local = local

    async def seen(self, validator: Validator, source_sha256: str) -> Seen:
        """Where this source stands with one validator. Raises nothing that it does wrong."""
        try:
            return await self._seen(validator, source_sha256)
        except FetchFailed as error:
            return Seen(validator.hotkey, validator.endpoint.url, "unreachable", f"{error.code}: {error}")

    async def feedback(self, validator: Validator, submission_id: UUID) -> list[Feedback]:
        """How our agent did there, episode by episode. Raises FetchFailed."""
        return await self._all(validator, f"/v1/submissions/{submission_id}/feedback", Page[Feedback])

    async def submissions(self, validator: Validator) -> list[SubmissionSummary]:
        """What one validator has of us, the latest first. Raises FetchFailed."""
        return await self._all(validator, "/v1/submissions", Page[SubmissionSummary])

    async def _seen(self, validator: Validator, source_sha256: str) -> Seen:
        url = validator.endpoint.url
        ours = await self.submissions(validator)
        rules = await self._ask(validator, "/v1/rules", RulesAnswer)
        until = _cooled(ours, rules)
        found = next((s for s in ours if s.source_sha256 == source_sha256), None)
        if found is None:
            tried = await self._ask(validator, "/v1/collections", Page[CollectionAttempt])
            last = next((a for a in tried.items if a.source_sha256 == source_sha256), None)
            said = "" if last is None else f"{last.code}: {last.detail}"
            return Seen(validator.hotkey, url, "not here", said, may_submit_at=until)
        status = await self._ask(validator, f"/v1/submissions/{found.submission_id}", SubmissionStatus)
        last_phase = max(status.progress, key=lambda p: (p.race, p.phase == "race"), default=None)
        return Seen(
            validator.hotkey,
            url,
            status.state,
            status.refusal or "",
            status.submission_id,
            race=None if last_phase is None else last_phase.race,
            phase=None if last_phase is None else f"{last_phase.phase} ({last_phase.race_state})",
            done=0 if last_phase is None else last_phase.done,
            episodes=0 if last_phase is None else last_phase.episodes,
            qualifying_score=None if last_phase is None else last_phase.qualifying_score,
            may_submit_at=until,
        )

    async def _all(self, validator: Validator, path: str, kind: type[Page[T]]) -> list[T]:
        found: list[T] = []
        asked: dict[str, str | int] = {"limit": 100}
        for _ in range(_PAGES):
            page = await self._ask(validator, f"{path}?{urlencode(asked)}", kind)
            found += page.items
            if page.next is None:
                break
            asked["cursor"] = page.next
        return found

    async def _ask(self, validator: Validator, path: str, kind: type[M]) -> M:
        fetched = await fetch(
            validator.endpoint,
            path,
            auth=HotkeyAuth(self._wallet, validator.hotkey),
            most_bytes=_ANSWER_BYTES,
            deadline_s=_DEADLINE_S,
            local=self._local,
        )
        try:
            return kind.model_validate_json(fetched.body)
        except ValidationError as error:
            raise FetchFailed("garbled", "it answers in a form that this version does not know") from error


def _cooled(ours: Sequence[SubmissionSummary], rules: RulesAnswer) -> datetime | None:
    latest = max((s.submitted_at for s in ours), default=None)
    if latest is None:
        return None
    try:
        return latest + timedelta(hours=Rules.load(rules.rules).cooldown_h)
    except (ValidationError, OverflowError):
        return latest


def digest_of(source: bytes) -> str:
    """What a source is known by: its SHA-256, in hex."""
    return hashlib.sha256(source).hexdigest()
