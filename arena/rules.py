"""Every constant of the race, with its unit and its reason, in one frozen model.

A race stores the rules it was opened with and their hash, and is run and settled by those, not by whatever
stands in a configuration file when it ends: a change of rules begins with the next race.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from problems.problem import content_id

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0.0)]
Hours = Annotated[float, Field(ge=0.0)]


def exact(share: float) -> Fraction:
    """The decimal number that a share was written as: 0.1 is one tenth here, not its nearest double."""
    return Fraction(repr(share))


class _Section(BaseModel):
    """A group of constants. Unknown keys are errors, so that a misspelt rule cannot silently not apply."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SandboxRules(_Section):
    """What one episode may use of the machine. The same for every agent, or scores could not be compared.

    The fields are those of `arena.sandbox.sandbox.Limits`.
    """

    wall_s: Seconds = 300.0
    """Time from the agent's first instruction to its end."""
    cpu_s: Seconds = 120.0
    """CPU time of all its processes: an agent's work is to ask a model, which costs none."""
    memory_bytes: Count = 1 << 30
    processes: Count = 64
    file_bytes: Annotated[int, Field(ge=0)] = 16 << 20
    work_bytes: Count = 64 << 20
    """Size of the writable folder, which dies with the episode."""
    output_bytes: Count = 64 << 10
    """How much the agent may print. It is a claim, never evidence."""
    open_files: Count = 256
    work_inodes: Count = 4096
    """Files and folders in the writable folder: each costs the kernel a kilobyte, though it be empty."""


class BudgetRules(_Section):
    """What one episode may spend through its recorder. The fields are those of `recorder.budget.Budget`."""

    model_calls: Count = 64
    """A task takes a good agent 5 to 20."""
    tool_calls: Count = 128
    prompt_tokens: Count = 1_000_000
    """A context of 16,000 tokens at each of those calls."""
    completion_tokens: Count = 100_000
    completion_tokens_per_call: Count = 8_192
    usd: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    """US dollars an episode, by the price table of the validator's settings. None: tokens alone are counted,
    which are the same for every validator, while prices are not."""
    prompt_bytes_per_call: Count = 256 << 10
    """Messages and tools of one model call: some 64,000 tokens. Beyond what a model reads providers fail in
    ways of their own, and an agent that is losing must not be able to make them."""
    body_bytes: Count = 1 << 20
    """Size of one request to the recorder."""
    total_bytes: Count = 16 << 20
    """Of all its requests together: it bounds what is stored, and the memory that storing it takes, which is
    many times as much. `model_calls` contexts of 16,000 tokens are a quarter of it."""
    concurrent_requests: Count = 8
    """Executed at once; more wait their turn."""
    connections: Count = 32
    temperature_max: Annotated[float, Field(ge=0.0, le=2.0)] = 2.0
    """What an agent asks for beyond is taken as this; 0 makes every model greedy."""
    top_p_min: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    penalty_max: Annotated[float, Field(ge=0.0, le=2.0)] = 2.0
    top_logprobs_max: Annotated[int, Field(ge=0, le=20)] = 5
    """Alternatives a token that an agent may see: they are stored, and 20 are many times the
    answer itself."""


class PayoutRules(_Section):
    """How the weights of a settled race are divided. The four shares make one."""

    champion: Share = 0.40
    tail: Share = 0.10
    """For the better half of the others, so that being second is worth registering for."""
    trace_credit: Share = 0.20
    """For traces that entered the corpus: it pays for model-driven work where it happens."""
    burn: Share = 0.30
    credit_cap: Share = 0.40
    """The most of the trace credit that one hotkey can have; the rest of its claim burns. Otherwise many
    cheap traces from one agent would be worth more than a few good ones from several."""

    @model_validator(mode="after")
    def _shares_make_one(self) -> Self:
        total = sum(exact(s) for s in (self.champion, self.tail, self.trace_credit, self.burn))
        if total != 1:
            raise ValueError(f"champion, tail, trace_credit and burn must add up to 1, not {float(total)}")
        return self


class PromotionRules(_Section):
    """When a challenger becomes champion."""

    margin: Share = 0.05
    """Mean gain in race score that is needed right after a promotion (1 is a perfect score)."""
    margin_half_life_h: Annotated[float, Field(gt=0.0)] = 72.0
    """The margin halves with this much of the champion's age: an old champion must not be safe by inertia."""
    margin_floor: Share = 0.01
    """The margin never falls under this: a smaller gain is not worth a change of champion."""
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    """Chance of promoting somebody, over all challengers of a race, when none is better."""
    exact_up_to: Annotated[int, Field(ge=0, le=24)] = 20
    """The test looks at every sign vector while at most this many problems differ (2^20 sums are 8 MB)."""
    draws: Count = 20_000
    """Sign vectors drawn beyond that. The smallest p-value is then 1/20,001; 0.05 is known to +-0.0015."""


class SimilarityRules(_Section):
    """When a source is a copy of an earlier one. `arena submissions calibrate` shows what they find."""

    k: Annotated[int, Field(ge=4)] = 12
    """Tokens that a fingerprint is taken over: what is shorter in common does not count."""
    window: Count = 8
    """Of so many fingerprints in a row one is kept: `k + window - 1` tokens in common are always found."""
    threshold: Annotated[float, Field(gt=0.0, le=1.0)] = 0.6
    """Share of the fingerprints of either source, baselines left out, from which on it is a copy. Between
    honest sources it is under 0.3, and between a source and a copy of it hardly ever under 0.7."""
    own_fingerprints: Count = 16
    """With fewer than these of its own, a source says too little to be compared: some 70 tokens."""
    merged_from: Count = 3
    """A source is also a copy when so many earlier ones together make up that share of it."""
    merged_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15
    """What each of those must add: what many programs have a little of is no copy of any."""


class LiteralRules(_Section):
    """What a source may hold of data. Code that asks a model needs little; answers by heart need much."""

    run_chars: Count = 100
    """Longest run of letters and digits that may look random: longer ones encode something."""
    random_chars: Count = 1_000
    """Of shorter such runs all together: an encoding cut into pieces is one still."""
    dense_bytes: Count = 2_000
    """A text at least this long must shrink as prose and code do when compressed ..."""
    dense_share: Share = 0.7
    """... to less than this share of itself."""
    table_entries: Count = 300
    """Constants in one list, set, tuple or dictionary, what is nested in it included."""
    codes: Count = 40
    """Different words with five digits or more, as product ids are. Which ids they are is not looked at:
    a refusal that depended on the answers would tell them."""


class RequestRules(_Section):
    """What one caller may ask of the API."""

    hotkey_per_minute: Annotated[float, Field(gt=0.0)] = 60.0
    """Signed requests of one hotkey in the long run: one a second is enough to watch a race."""
    hotkey_burst: Count = 60
    """Of those, how many at once."""
    address_per_minute: Annotated[float, Field(gt=0.0)] = 600.0
    """Requests from one address (of IPv6: from one /64), which several miners may share."""
    address_burst: Count = 300
    remembered: Count = 50_000
    """Hotkeys, and addresses, whose requests are counted: some 10 MB each. Beyond them the one unseen longest
    begins anew."""
    deadline_s: Seconds = 120.0
    """The longest that a request may take, the chain's answer and the screening of a source included."""


class Rules(_Section):
    """The constants of the arena. Scores are in [0, 1]; times in the unit that the name ends with."""

    public_size: Count = 30
    """Problems of the public suite that qualifying plays."""
    drawn_size: Count = 60
    """Problems of a hidden draw."""
    quota: dict[str, Count] = Field(default_factory=dict)
    """Problems of the draw by category; empty: the categories share evenly, as far as the pool has them."""
    repeats: Count = 1
    """How often each agent plays each problem; a problem's score is the mean."""

    entry_share: Share = 0.95
    """A challenger needs this share of the champion's qualifying score to enter the race."""
    max_challengers: Count = 20
    """The best qualifiers up to this many enter: a race costs `drawn_size` episodes an entrant."""

    max_attempts: Count = 3
    """How often an episode that we could not score is played before it stays Unscored."""
    max_leases: Count = 12
    """How often an episode may be handed out, workers that died with it included."""
    retry_backoff_s: Annotated[float, Field(ge=0.0)] = 15.0
    """Wait before the second attempt; it doubles with each further one."""
    retry_backoff_max_s: Annotated[float, Field(ge=0.0)] = 600.0
    lease_s: Seconds = 45.0
    """A worker that was silent this long has lost its episode."""
    heartbeat_s: Seconds = 10.0
    """How often a worker renews its lease."""
    overrun_s: Seconds = 180.0
    """What an episode may take beyond its wall time, to be set up, scored and torn down."""
    outage_after: Count = 3
    """Unscored episodes in a row after which a worker probes with one episode at a time."""
    outage_pause_s: Seconds = 5.0
    """Pause between those probes; it doubles while the outage lasts."""
    outage_pause_max_s: Seconds = 120.0
    judge_deadline_s: Seconds = 3600.0
    """The longest that one round of judging may take before the race looks again."""
    judge_retries: Annotated[int, Field(ge=0)] = 4
    """Further rounds of judging before what the judge could not answer is left out."""
    judge_pause_s: Annotated[float, Field(ge=0.0)] = 5.0
    """Pause before the first such round; it doubles with each further one."""
    void_share: Share = 0.10
    """A race with more than this share of its problems left out is void: it would decide on too few."""
    withdrawn_share: Share = 0.05
    """An agent that could not be scored on more than this share of the problems (and on more than one),
    though the model answered others there, is withdrawn: every problem that one agent has no score on is left
    out for all. After `max_attempts` that happens by accident less than once in a race, while an agent that
    is losing could bring it about wherever it likes."""
    withdrawn_factor: Annotated[float, Field(ge=1.0)] = 3.0
    """It must also have more than this many times as many such problems as the median of the other entrants:
    what a provider's bad hour does to one it does to all."""

    consensus: Literal["own", "median"] = "own"
    """Who decides a race: each validator by itself, or all together, by stake-weighted medians of their
    scores and a vote on the champion. Then the number of a race is that of its boundary."""
    consensus_deadline_s: Seconds = 1800.0
    """How long a validator waits for the others' results after it has its own."""
    consensus_quorum: Share = 0.5
    """With less than this share of the stake of all validators in, it goes on by itself."""

    agency_floor: Share = 0.5
    """What is left of a score when none of the tool calls was the model's own."""

    promotion: PromotionRules = PromotionRules()
    payout: PayoutRules = PayoutRules()
    sandbox: SandboxRules = SandboxRules()
    budget: BudgetRules = BudgetRules()

    source_bytes: Count = 256 << 10
    """The largest source: more cannot be reviewed, and parsing it costs more than it says."""
    name_chars: Count = 48
    cooldown_h: Hours = 12.0
    """Between two submissions of one hotkey, so that the public suite cannot be climbed by trial. As long
    after a refusal for integrity: a copy, or a commitment to something else."""
    cooldown_security_h: Hours = 1.0
    """After a refusal for what the policy prohibits: it may be a mistake, but not one to repeat quickly."""
    embargo_h: Hours = 24.0
    """How long a source stays hidden after its first race has settled."""
    require_commitment: bool = True
    """Whether a source must be committed to on chain before it is sent: the proof of who had it first."""
    similarity: SimilarityRules = SimilarityRules()
    literals: LiteralRules = LiteralRules()
    screening_cpu_s: Count = 10
    """CPU time for reading a source: ordinary code of the largest size takes 2 to 3 s."""
    screening_wall_s: Seconds = 30.0
    screening_memory_bytes: Count = 512 << 20
    requests: RequestRules = RequestRules()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.lease_s < 2 * self.heartbeat_s:
            raise ValueError(
                f"lease_s ({self.lease_s:g}) must be at least twice heartbeat_s ({self.heartbeat_s:g}), "
                "because one late heartbeat must not cost a worker its episode"
            )
        if self.max_leases < self.max_attempts:
            raise ValueError("max_leases must be at least max_attempts: every attempt takes a lease")
        if self.quota and sum(self.quota.values()) != self.drawn_size:
            raise ValueError(
                f"quota adds up to {sum(self.quota.values())}, not to drawn_size {self.drawn_size}"
            )
        return self

    @classmethod
    def load(cls, mapping: Mapping[str, Any]) -> Rules:
        """The rules in `mapping`; what it leaves out is default.

        Raises pydantic.ValidationError on unknown keys and on values out of range.
        """
        return cls.model_validate(dict(mapping))

    @property
    def rules_hash(self) -> str:
        """SHA-256 (hex) over every constant: two validators with the same hash run the same race."""
        return content_id(self.model_dump(mode="json"))
