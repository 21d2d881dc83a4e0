"""All settings: from `arena.toml`, then `BT_*` environment variables, then `ARENA_*` ones, then flags.

A later source wins. A key that is not known is an error, wherever it stands: a misspelt limit that is
silently ignored costs money.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyAddress,
    JsonValue,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as UnreadableVariable

from arena.rules import Rules
from arena.sandbox.sandbox import BackendName
from arena.sandbox.staging import PACKAGES
from neurons import bittensor_environment
from neurons.bittensor_environment import ContradictingVariables
from problems.shopping.embedding import MODEL, REVISION
from problems.shopping.serper import SERPER

SETTINGS_FILE = "arena.toml"
PREFIX = "ARENA_"
NOT_SETTINGS = frozenset({"ARENA_SHARED_DATA", "ARENA_CACHE_DIR", "ARENA_CONFIG"})
"""Variables with our prefix that are no settings: test data, the cache, and where the settings file is."""


class SettingsError(ValueError):
    """The settings cannot be used; the message names each key and what is wrong with it."""


def default_data_dir() -> Path:
    """`arena-data` in the current folder; for root in a folder that others cannot reach, one under /var/lib.

    The embedded database and the sandboxed agents run as users of their own and must reach what is theirs.
    """
    here = Path("arena-data").absolute()
    if os.geteuid() == 0 and not all(p.stat().st_mode & stat.S_IXOTH for p in here.parents):
        return Path("/var/lib/bittensor-agent-arena/arena-data")
    return here


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


HomePath = Annotated[Path, AfterValidator(_at_home)]
"""A path in which ~ stands for the user's home, wherever it was written."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ChainSettings(_Section):
    """The chain and the subnet."""

    network: str = "test"
    """finney, test, local, or a ws:// address."""
    netuid: int = Field(default=0, ge=0)
    """0 means not set; the validator refuses to run on it."""
    fallback_endpoints: tuple[str, ...] | None = None
    """Where to go when the network's own endpoint is down; None: where the SDK goes."""
    archive_endpoints: tuple[str, ...] | None = None
    """Where to ask for state that a node has forgotten; None: where the SDK asks."""
    stalled_after_s: float = Field(default=600.0, gt=0)
    """Without a new block for this long, a validator ends for its supervisor to start it anew."""
    set_weights: bool = True
    """False: race, and publish results, and leave the weights on the chain alone."""


class WalletSettings(_Section):
    """The wallet, as btcli names it. Only the hotkey is ever read by a validator."""

    name: str = "default"
    hotkey: str = "default"
    path: HomePath = Field(default=Path("~/.bittensor/wallets"), validate_default=True)


def _key_safe(url: str) -> str:
    parts = urlsplit(url)
    near = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and near)):
        raise ValueError("a key must not travel in the clear: give an https:// address")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("give the address alone, without user, password, query or fragment")
    return url


EndpointName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
KeySafeUrl = Annotated[str, AfterValidator(_key_safe)]
"""An address that a secret may be sent to."""


class PriceSettings(_Section):
    """What a model costs, in US dollars a million tokens; 0 for one of your own."""

    prompt: float = Field(ge=0, allow_inf_nan=False)
    completion: float = Field(ge=0, allow_inf_nan=False)


class ModelSettings(_Section):
    """The OpenAI-compatible endpoint that agents' model calls go to."""

    base_url: str | None = None
    api_key: SecretStr | None = None
    models: tuple[str, ...] = ()
    """Models that agents may name; the first is the default."""
    prices: dict[str, PriceSettings] = Field(default_factory=dict)
    """By model. Every model needs one when `rules.budget.usd` is set; else they only tell what was spent."""
    timeout_s: float = Field(default=120.0, gt=0)
    retries: int = Field(default=3, ge=0)
    miner_endpoints: dict[EndpointName, KeySafeUrl] = Field(default_factory=dict)
    """By name, where miners may have their own keys pay: OpenAI-compatible, and with `models` under the same
    names. Empty: the house pays for everybody. A key goes to these addresses and to no others."""


class SandboxSettings(_Section):
    """How foreign code is run."""

    backend: BackendName = "auto"
    """bubblewrap, docker, or auto: the strongest whose probe passes on this host."""
    packages: tuple[str, ...] = PACKAGES
    """What agents may import, with all that it requires. The same on every validator of a subnet."""
    unsafe: bool = False
    """Run agents as plain subprocesses. Only for a machine with nothing to lose."""
    slots: int = Field(default=2, ge=1, le=512)
    """Episodes at a time in one worker process."""


class ApiSettings(_Section):
    """Where the validator listens for submissions."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    operators: tuple[str, ...] = ()
    """Hotkeys (SS58) that may pause, void and re-judge races, in requests that they sign."""
    announce: bool = True
    """Whether to write `external_ip` and `external_port` into the metagraph, where miners look for us."""
    external_ip: IPvAnyAddress | None = None
    """Where we answer to the world; None: at `host`, when that is an address others can reach."""
    external_port: int | None = Field(default=None, ge=1, le=65535)
    """None: the port we listen on."""


class LoggingSettings(_Section):
    """What is told on stderr."""

    level: Literal["warning", "info", "debug", "trace"] = "warning"
    """Beyond what a validator did, which is always told. trace includes the libraries."""


class ProblemSettings(_Section):
    """What is played."""

    environment: Literal["shopping", "ledger"] = "shopping"
    """The world."""
    path: HomePath | None = None
    """ShoppingBench's files, an ORO suite, or what `arena problems` made; None: problems are generated."""
    seed: int | None = None
    """Keep it secret: who knows it knows the pool. None: drawn once, and kept beside the problems."""
    products: int = Field(default=30_000, ge=200)
    pool: int | None = None
    """Problems to draw hidden sets from; None: as many as there are."""
    similarity: Literal["lexical", "embedding"] = "lexical"
    """How titles are compared. Part of every outcome: what was scored in two ways is never compared."""
    embedding_model: str = MODEL
    """Of `embedding`: a name on the Hugging Face hub, or a folder. Needs the extra `embed`."""
    embedding_revision: str = REVISION
    """The commit of that model; of a folder its files' hash is used."""
    exhaustive_sort: bool = False
    """Sort all matches of a search, and not only the 50 best; a suite folder says so itself."""
    parity: Literal["shoppingbench"] | None = None
    """Score by ShoppingBench's own rules where they differ; a suite folder says so itself."""


class WebSettings(_Section):
    """Where the tool web_search looks. Without a provider, problems that need it are not played."""

    provider: Literal["none", "serper", "snippets"] = "none"
    base_url: str = SERPER
    """Of `serper`: that service, or one that answers as it does."""
    api_key: SecretStr | None = None
    """Of `serper`."""
    snippets: HomePath | None = None
    """Of `snippets`: JSON Lines of {"url", "title", "content"}."""
    timeout_s: float = Field(default=6.0, gt=0, le=9)
    """For one of three attempts; a tool has 30 seconds in all."""

    @model_validator(mode="after")
    def _complete(self) -> WebSettings:
        if self.provider == "serper" and self.api_key is None:
            raise ValueError("the provider serper needs web.api_key")
        if self.provider == "snippets" and self.snippets is None:
            raise ValueError("the provider snippets needs web.snippets, a file")
        return self


class JudgeModelSettings(_Section):
    """One language model of the panel, behind an OpenAI-compatible endpoint. The house pays."""

    base_url: str
    model: str
    api_key: SecretStr | None = None
    prompt_price: float = Field(ge=0, allow_inf_nan=False)
    """Dollars a million tokens; 0 for a model of your own. Needed, because the spend cap counts by it."""
    completion_price: float = Field(ge=0, allow_inf_nan=False)
    timeout_s: float = Field(default=60.0, gt=0)
    requests_per_minute: int = Field(default=120, ge=1)
    max_concurrent: int = Field(default=8, ge=1)
    max_tokens: int = Field(default=4096, ge=1)
    """Of a reply, thinking included."""
    structured: bool = False
    """Whether it takes a JSON schema as `response_format`."""
    request: dict[str, JsonValue] = Field(default_factory=dict)
    """More of the request's body: how long to think, say. null leaves a key out."""


class JudgeSettings(_Section):
    """Who grades reasoning. Without models, the grounded judge alone."""

    models: tuple[JudgeModelSettings, ...] = ()
    k: int | None = Field(default=None, ge=1)
    """Models asked at first; None: three, or as many as there are."""
    quorum: int | None = Field(default=None, ge=1)
    """Answers without which there is no judgement; None: more than half of k."""
    extra: int = Field(default=2, ge=0)
    """Models that may be asked further."""
    split: float = Field(default=0.4, ge=0, le=1)
    """Grades further apart than this are a split."""
    deadline_s: float = Field(default=100.0, gt=0, le=110)
    """For one judgement, within what the worker allows."""
    daily_cap: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    """Dollars a day (UTC), all processes together."""


class Settings(BaseSettings):
    """Everything that can be set, apart from what a command is asked to do."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    data_dir: HomePath = Field(default_factory=default_data_dir)
    """Everything the program keeps lies here, unless a database URL says otherwise."""
    database_url: SecretStr | None = None
    """A PostgreSQL URL; without one an embedded server runs in the data folder."""
    chain: ChainSettings = ChainSettings()
    wallet: WalletSettings = WalletSettings()
    model: ModelSettings = ModelSettings()
    sandbox: SandboxSettings = SandboxSettings()
    api: ApiSettings = ApiSettings()
    logging: LoggingSettings = LoggingSettings()
    problems: ProblemSettings = ProblemSettings()
    web: WebSettings = WebSettings()
    judge: JudgeSettings = JudgeSettings()
    rules: Rules = Rules()

    def url(self) -> str | None:
        """The database URL in plain text, for the one who connects."""
        return self.database_url.get_secret_value() if self.database_url else None


def load(flags: Mapping[str, Any] | None = None, *, file: Path | None = None) -> Settings:
    """The settings in force. `flags` is nested like the file; values of None are not given.

    Without `file`, `$ARENA_CONFIG` or `arena.toml` in the current folder is read when it exists.
    Raises SettingsError.
    """
    _refuse_unknown_variables()
    from_file = _read(file)
    try:
        from_bittensor = bittensor_environment.settings_of(os.environ)
    except ContradictingVariables as error:
        raise SettingsError(f"settings that cannot be used: {error}") from None

    class Layered(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (
                InitSettingsSource(settings_cls, _given(flags or {})),
                env_settings,
                InitSettingsSource(settings_cls, from_bittensor),
                InitSettingsSource(settings_cls, from_file),
            )

    try:
        return Layered()
    except ValidationError as error:
        raise SettingsError(f"settings that cannot be used: {explained(error)}") from None
    except UnreadableVariable as error:
        # Its cause quotes the value, which may be a secret.
        raise SettingsError(f"settings that cannot be used: {error}; it must be JSON") from None


def explained(error: ValidationError) -> str:
    """What pydantic found, in one line, by key, and without the values."""
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'all of it'}: {e['msg']}" for e in error.errors())


def _read(file: Path | None) -> dict[str, Any]:
    variable = os.environ.get("ARENA_CONFIG")
    named = file or (Path(variable).expanduser() if variable else None)
    path = named or Path(SETTINGS_FILE)
    if not path.is_file():
        if named:
            raise SettingsError(f"there is no settings file {named}")
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None


def _refuse_unknown_variables() -> None:
    known = {field.upper() for field in Settings.model_fields}
    for variable in os.environ:
        name = variable.upper()  # they are read in either case
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        section, _, key = name.removeprefix(PREFIX).partition("__")
        nested = getattr(Settings.model_fields.get(section.lower()), "annotation", None)
        keys = {k.upper() for k in getattr(nested, "model_fields", {})}
        if section not in known or (key and key.split("__")[0] not in keys):
            raise SettingsError(
                f"the environment variable {variable} is not a setting; known are "
                + ", ".join(sorted(PREFIX + field for field in known))
                + " (and SECTION__KEY within the sections)"
            )


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, value in flags.items():
        if isinstance(value, Mapping):
            inner = _given(value)
            if inner:
                given[key] = inner
        elif value is not None:
            given[key] = value
    return given
