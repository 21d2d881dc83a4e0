"""Which errors a user can meet, and what to tell of them. Anything else is a mistake of ours.

Imports from everywhere, so it is imported when something went wrong, and not before.
"""

from __future__ import annotations

from bittensor_core import KeyfileError
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from arena.sandbox.sandbox import SandboxUnavailable
from arena.screening import ScreeningUnavailable
from arena.scripted_shopper.child import ShopperNotStarted
from distill.backend import TrainingExtraMissing
from distill.corpus import CorpusChanged, CorpusTooSmall
from distill.pipeline import RunMismatch, TrainingFailed
from judge.gold.loading import BadGold
from judge.rubric import UnknownRubric
from neurons.chain_types import ChainError, ChainStalled, ChainUnavailable
from neurons.demo.loop import RaceVoid
from neurons.demo.options import DemoMismatch, DemoRunning
from neurons.localnet.launch import LocalNetFailed
from neurons.localnet.metadata import MetadataUnavailable
from neurons.miner import SubmissionRefused, ValidatorUnreachable
from neurons.mining.sending import NoValidators
from neurons.payments import NotSettled
from neurons.peer_race import NotPublished
from neurons.practice import WouldBeRefused
from neurons.sealed import KeyNotSealed
from neurons.serving import PortTaken
from neurons.settings import SettingsError, explained
from neurons.stopping import TRY_LATER
from neurons.supervision import PartFailed
from neurons.trace_files import NoTraceFile
from neurons.verifying import NotPlayableHere
from neurons.wallets import NotADemoChain, WalletMissing
from neurons.watching import DatabaseLost
from problems.golden import GoldenFileError
from problems.importers import ImportFailed
from problems.report import MixedScorers
from problems.shopping.catalog import CatalogError
from problems.shopping.embedding import EmbedderMissing
from problems.shopping.facts import KnowledgeError
from problems.shopping.synthesis import SynthesisError
from problems.shopping.verbaliser import VerbaliserError
from problems.shopping.web import SnippetFileError
from problems.shopping.world import WorldError
from problems.suite_files import SuiteError
from storage.errors import StorageError

USER_ERRORS: tuple[type[Exception], ...] = (
    BadGold,
    CatalogError,
    ChainError,
    CorpusChanged,
    CorpusTooSmall,
    DatabaseLost,
    DemoMismatch,
    DemoRunning,
    EmbedderMissing,
    GoldenFileError,
    ImportFailed,
    KeyfileError,
    KnowledgeError,
    KeyNotSealed,
    LocalNetFailed,
    MetadataUnavailable,
    MixedScorers,
    NoTraceFile,
    NotADemoChain,
    NotPlayableHere,
    NotPublished,
    NotSettled,
    NoValidators,
    PartFailed,
    PortTaken,
    RaceVoid,
    RunMismatch,
    SandboxUnavailable,
    ScreeningUnavailable,
    SettingsError,
    ShopperNotStarted,
    SnippetFileError,
    StorageError,
    SubmissionRefused,
    SuiteError,
    SynthesisError,
    TrainingExtraMissing,
    TrainingFailed,
    ValidatorUnreachable,
    WalletMissing,
    UnknownRubric,
    VerbaliserError,
    WorldError,
    WouldBeRefused,
)
"""Each says what is wrong and what to do."""


_START_ANEW = (ChainStalled, DatabaseLost, PartFailed)
USER_STATUS = 2
"""Exit status when a person has to change something."""


def status(error: Exception) -> int:
    """The exit status that an error ends the command with: 75 where a supervisor should start it anew."""
    return TRY_LATER if isinstance(error, _START_ANEW) else USER_STATUS


def explanation(error: Exception) -> str | None:
    """What to tell a user of the error; None when it is none that a user should meet."""
    match error:
        case ChainUnavailable():
            return f"{error}; check --subtensor.network, or try again later"
        case ValidationError():
            return explained(error)
        case SQLAlchemyError():
            # Only its first line: the others quote the statement and its parameters.
            return f"the database did not do what was asked: {str(error).partition(chr(10))[0]}"
        case _ if isinstance(error, USER_ERRORS):
            return str(error)
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            return f"{place}{error.strerror or error}"
    return None
