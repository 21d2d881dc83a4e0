"""The other validators, as a race wants them: everybody with a permit is asked for its signed result.

What they answer is a stranger's: it is read within bounds here, and judged in `arena.signed_results`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from arena.api.schemas import SignedAnswer
from arena.signed_results import RESULT_BYTES, Heard, signed_text
from neurons.chain_types import ChainError, Neuron, Subnet
from neurons.fetching import FetchFailed, fetch
from neurons.mining.validators import of_all
from neurons.signing import HotkeyAuth, signature
from neurons.wallets import Wallet, is_local

_DEADLINE_S = 30.0
_METAGRAPH_S = 30.0
_RAO = 10**9


class Peers:
    """Answers what `arena.signed_results.Others` asks, over the chain's metagraph and HTTP."""

    def __init__(self, chain: Subnet, wallet: Wallet, *, deadline_s: float = _DEADLINE_S) -> None:
        self._chain = chain
        self._wallet = wallet
        self._local = is_local(chain.network)
        self._deadline_s = deadline_s

    @property
    def hotkey(self) -> str:
        """Our own hotkey."""
        return self._wallet.hotkey.ss58_address

    def sign(self, body: bytes) -> str:
        """Our hotkey's signature over a result, in hex."""
        return signature(self._wallet, signed_text(body))

    async def ask(self, race: int, *, known: Mapping[str, Heard]) -> tuple[int, list[Heard]]:
        """Our own stake, and what every other validator with a permit and a stake says of the race."""
        try:
            graph = await self._chain.metagraph(fresh_s=_METAGRAPH_S)
        except ChainError as error:
            raise ConnectionError(f"the chain does not say who the validators are: {error}") from error
        own = graph.of(self.hotkey)
        others = [
            n for n in graph.neurons if n.validator_permit and _stake(n) > 0 and n.hotkey != self.hotkey
        ]

        async def hear(neuron: Neuron) -> Heard:
            before = known.get(neuron.hotkey)
            if before is not None:
                return Heard(neuron.hotkey, _stake(neuron), before.body, before.signature)
            return await self._hear(neuron, race)

        heard = await of_all(sorted(others, key=lambda n: n.hotkey), hear)
        return (_stake(own) if own is not None and own.validator_permit else 0), heard

    async def _hear(self, neuron: Neuron, race: int) -> Heard:
        stake = _stake(neuron)
        if neuron.endpoint is None:
            return Heard(neuron.hotkey, stake, None, None, "it has announced no endpoint")
        try:
            fetched = await fetch(
                neuron.endpoint,
                f"/v1/races/{race}/signed",
                auth=HotkeyAuth(self._wallet, neuron.hotkey),
                most_bytes=2 * RESULT_BYTES,
                deadline_s=self._deadline_s,
                local=self._local,
            )
            answer = SignedAnswer.model_validate_json(fetched.body)
            return Heard(neuron.hotkey, stake, answer.body.encode(), answer.signature[:256])
        except FetchFailed as error:
            return Heard(neuron.hotkey, stake, None, None, f"{error.code}: {error}"[:300])
        except (ValidationError, UnicodeError):
            return Heard(neuron.hotkey, stake, None, None, "garbled: it answers in another form")


def _stake(neuron: Neuron) -> int:
    return round(neuron.stake * _RAO)
