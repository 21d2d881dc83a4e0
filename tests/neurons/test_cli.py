"""Whatever goes wrong, a person reads one sentence that says what to do, and a script sees status 2."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from arena.sandbox.staging import stage
from neurons import cli
from neurons.demo.options import DemoOptions, claimed
from neurons.localnet.launch import LocalNet
from neurons.wallets import Wallet, demo_wallet
from tests.neurons.commands import ROOT, Running, arena, environment
from tests.neurons.conftest import NETUID

LOCAL = "ws://127.0.0.1:9944"
NOBODY = "ws://127.0.0.1:9"
"""Nothing listens at the discard port."""
MODEL = ("--model.base-url=http://127.0.0.1:9/v1", "--model.name=m")
COMMANDS = (
    (),
    ("demo",),
    ("doctor",),
    ("worker",),
    ("validator",),
    ("validator", "run"),
    ("validator", "idle"),
    ("miner",),
    ("miner", "register"),
    ("miner", "submit"),
    ("miner", "run"),
    ("miner", "commit"),
    ("miner", "status"),
    ("miner", "feedback"),
    ("miner", "withdraw"),
    ("miner", "run-local"),
    ("localnet",),
    ("localnet", "start"),
    ("localnet", "show"),
    ("episode", "show"),
    ("problems", "score"),
    ("problems", "generate"),
    ("problems", "import"),
    ("problems", "audit"),
    ("catalog", "import"),
    ("catalog", "build"),
    ("catalog", "show"),
    ("traces", "export"),
    ("traces", "rejudge"),
    ("submissions", "calibrate"),
    ("judge", "calibrate"),
    ("judge", "worker"),
    ("distill", "run"),
)


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


Arena = Callable[..., Ended]


@pytest.fixture
def here(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and an environment without our variables."""
    monkeypatch.chdir(open_folder)
    for name in [n for n in os.environ if n.startswith(("ARENA_", "BT_"))]:
        monkeypatch.delenv(name)
    return open_folder


@pytest.fixture
def run(here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Arena:
    """Runs the console entry point in this process."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["arena", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, said.out, said.err)

    return run


@pytest.fixture
def no_programs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which neither bubblewrap nor apt-get is found."""
    stage()  # which needs programs of its own
    empty = here / "no-programs"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))


def refused(ended: Ended, *words: str) -> None:
    """One line, with the words, and status 2."""
    assert ended.status == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("arena: "), ended.err
    assert ended.err.count("\n") == 1, ended.err
    for word in words:
        assert word in ended.err, ended.err


def wallet(folder: Path) -> Wallet:
    return demo_wallet("w", folder / "wallets", network=LOCAL)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: tuple[str, ...], run: Arena) -> None:
    ended = run(*command, "--help")
    assert (ended.status, ended.err) == (0, "")
    assert "Usage" in ended.out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_summary_says_what_the_command_itself_says(name: str) -> None:
    assert cli.command(name).help.startswith(cli.COMMANDS[name][2].rstrip("."))


def test_a_misspelt_command_is_no_traceback(run: Arena) -> None:
    ended = run("validatr")
    assert ended.status == 2
    assert "validator" in ended.err


def test_commands_start_without_what_only_training_needs() -> None:
    heavy = ("torch", "transformers", "trl", "datasets", "peft", "accelerate")
    code = (
        "import sys; from neurons import cli, user_errors; [cli.command(n) for n in cli.COMMANDS];"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout == "[]\n"


def test_help_waits_for_no_library_of_any_command() -> None:
    heavy = ("bittensor", "sqlalchemy", "fastapi", "numpy", "tantivy")
    code = (
        "import sys, neurons.cli\nsys.argv = ['arena', '--help']\ntry: neurons.cli.main()\n"
        f"except SystemExit: print([m for m in {heavy} if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.endswith("[]\n")


def test_a_process_shows_no_traceback_and_ends_with_status_2(here: Path) -> None:
    ended = arena(here, "validator", "run")
    refused(Ended(ended.returncode, ended.stdout, ended.stderr), "--netuid")


def test_a_validator_needs_a_subnet(run: Arena) -> None:
    refused(run("validator", "run"), "which subnet? give --netuid")


def test_a_miner_needs_a_subnet(run: Arena) -> None:
    refused(run("miner", "register"), "which subnet? give --netuid")


def test_races_need_a_time_between_them(run: Arena) -> None:
    refused(run("validator", "run", "--netuid=1", "--race-every-h=0"), "--race-every-h")


def test_a_missing_wallet_is_said_with_where_it_was_looked_for(run: Arena, here: Path) -> None:
    ended = run("validator", "run", "--netuid=1", "--wallet.name=nobody", f"--wallet.path={here}")
    refused(ended, "nobody", str(here), "btcli wallet create")


def test_a_broken_key_file_is_no_traceback(run: Arena, here: Path) -> None:
    (here / "wallets" / "w" / "hotkeys").mkdir(parents=True)
    (here / "wallets" / "w" / "hotkeys" / "default").write_text("garbage")
    command = ("validator", "run", "--netuid=1", f"--subtensor.network={NOBODY}", *MODEL)
    refused(run(*command, "--wallet.name=w", "--wallet.path=wallets"), "keyfile")


def test_a_validator_needs_a_model(run: Arena, here: Path) -> None:
    wallet(here)
    ended = run("validator", "run", "--netuid=1", "--wallet.name=w", "--wallet.path=wallets")
    refused(ended, "no model endpoint", "--model.base-url", "--model.name")


def test_a_worker_needs_a_model(run: Arena) -> None:
    refused(run("worker"), "no model endpoint")


def test_an_unreachable_chain_is_said(run: Arena, here: Path) -> None:
    wallet(here)
    command = ("validator", "run", "--netuid=1", f"--subtensor.network={NOBODY}", *MODEL)
    refused(
        run(*command, "--wallet.name=w", "--wallet.path=wallets"), "could not connect", "--subtensor.network"
    )


def test_a_validator_must_be_registered(run: Arena, here: Path, localnet: LocalNet) -> None:
    hotkey = wallet(here).hotkey.ss58_address
    command = ("validator", "run", f"--netuid={NETUID}", f"--subtensor.network={localnet.url}", *MODEL)
    ended = run(*command, "--wallet.name=w", "--wallet.path=wallets")
    refused(ended, hotkey, "btcli tx burned-register")


def test_a_miner_without_the_price_of_registration_is_told(
    run: Arena, here: Path, localnet: LocalNet
) -> None:
    wallet(here)
    command = ("miner", "register", f"--netuid={NETUID}", f"--subtensor.network={localnet.url}")
    refused(run(*command, "--wallet.name=w", "--wallet.path=wallets"), "insufficient_balance")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nowhere", "http://[::bad", "http://" + "x" * 300])
def test_a_miner_is_told_when_no_validator_answers(url: str, run: Arena, here: Path) -> None:
    wallet(here)
    (here / "agent.py").write_text("")
    command = ("miner", "submit", "--agent=agent.py", f"--api.url={url}", "--netuid=1")
    on_chain = (f"--subtensor.network={NOBODY}", "--wallet.name=w", "--wallet.path=wallets")
    refused(run(*command, *on_chain), "no validator answers", url, "--api.url")


def test_settings_that_cannot_be_used_are_named(run: Arena, here: Path) -> None:
    (here / "arena.toml").write_text("[chain]\nnetuids = 1")
    refused(run("validator", "run"), "chain.netuids")


def test_brackets_in_a_message_are_shown_as_they_are(run: Arena, here: Path) -> None:
    refused(run("traces", "export", "--out=x", "--data-dir=[red]a[/red] [/b]"), "[red]a[/red] [/b]")


def test_a_long_message_is_one_line(run: Arena, here: Path) -> None:
    refused(run("traces", "export", "--out=x", f"--data-dir={'long/' * 40}"), "long/" * 39)


@pytest.mark.parametrize(
    "command", [("traces", "export", "--out=x"), ("distill", "run", "plan.yaml")], ids=lambda c: c[0]
)
def test_reading_makes_no_new_store(command: tuple[str, ...], run: Arena, here: Path) -> None:
    (here / "plan.yaml").write_text("name: n\nmodel: {path: m}")
    refused(run(*command, "--data-dir=misspelt"), "there is no database in misspelt")
    assert not (here / "misspelt").exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hush@127.0.0.1:9/d",
        "postgresql://u:hush@127.0.0.1:port/d",
        "postgresql://u:hu@sh@127.0.0.1:9/d",
        "mysql://u:hush@h/d",
        "u:hush",
    ],
)
def test_a_database_that_cannot_be_reached_is_said_without_the_password(
    url: str, run: Arena, here: Path
) -> None:
    ended = run("traces", "export", "--out=x", f"--database-url={url}")
    refused(ended, "database")
    assert "hush" not in ended.err
    assert "hu@sh" not in ended.err


def test_an_export_of_an_unknown_race_is_refused(run: Arena, database_url: str) -> None:
    ended = run("traces", "export", "--out=x", "--race=99", f"--database-url={database_url}")
    refused(ended, "no race 99")


def test_an_export_never_overwrites_what_is_none(run: Arena, database_url: str, here: Path) -> None:
    (here / "x").mkdir()
    (here / "x" / "precious").touch()
    refused(run("traces", "export", "--out=x", f"--database-url={database_url}"), "x")
    assert (here / "x" / "precious").exists()


@pytest.mark.parametrize("format", ["openai", "atif"])
def test_an_export_can_be_read_by_machines(format: str, run: Arena, database_url: str, here: Path) -> None:
    command = ("traces", "export", f"--format={format}", f"--out={format}", "--json")
    ended = run(*command, f"--database-url={database_url}")
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(ended.out)["traces"] == 0
    assert (here / format).is_dir()


def test_a_folder_that_cannot_be_written_is_named(run: Arena, database_url: str) -> None:
    refused(run("traces", "export", "--out=/proc/x", f"--database-url={database_url}"), "/proc")


def test_a_demo_that_runs_already_is_said(run: Arena, here: Path) -> None:
    with claimed(here / "kept", DemoOptions()):
        refused(run("demo", "--data-dir=kept"), str(here / "kept"), "another --data-dir")


def test_a_demo_with_other_options_says_which(run: Arena, here: Path) -> None:
    with claimed(here / "kept", DemoOptions(seed=8)):
        pass
    refused(run("demo", "--data-dir=kept"), "another seed")


def test_a_demo_of_no_size_is_refused(run: Arena) -> None:
    refused(run("demo", "--drawn=1"), "drawn: ")


@pytest.mark.usefixtures("no_programs")
def test_a_machine_without_a_sandbox_is_told_what_to_install(run: Arena) -> None:
    refused(run("worker", *MODEL), "bubblewrap is not installed", "apt-get install bubblewrap")


@pytest.mark.usefixtures("no_programs")
def test_the_doctor_says_what_to_install_for_a_sandbox(run: Arena) -> None:
    ended = run("doctor", "--json")
    [sandbox] = [c for c in json.loads(ended.out)["checks"] if c["check"] == "sandbox"]
    assert (ended.status, sandbox["state"]) == (1, "problem")
    assert "apt-get install bubblewrap" in sandbox["remedy"]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_demo_without_its_problems_is_refused(run: Arena, here: Path) -> None:
    ended = run("demo", "--problems=[missing]", "--data-dir=kept")
    assert ended.status == 2
    assert "[missing]" in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_worker_with_other_problems_than_the_validators_is_refused(
    run: Arena, here: Path, database_url: str
) -> None:
    (here / "arena.toml").write_text("[problems]\nproducts = 300\npool = 3\n[rules]\npublic_size = 3")
    ended = run("worker", *MODEL, f"--database-url={database_url}")
    assert ended.status == 2
    assert "start its validator first" in ended.err.splitlines()[-1]


def test_a_golden_file_with_a_mismatch_ends_with_status_1_and_names_the_case(run: Arena, here: Path) -> None:
    (here / "golden.jsonl").write_text(json.dumps(GOLDEN) + "\n" + json.dumps(GOLDEN | {"case_id": "b[/b]"}))
    ended = run("problems", "score", "golden.jsonl")
    assert ended.status == 1
    assert {line.partition(":")[0] for line in ended.out.splitlines()[:-1]} == {"a", "b[/b]"}
    assert ended.out.endswith("0 of 2 match\n")
    as_json = run("problems", "score", "golden.jsonl", "--json")
    assert as_json.status == 1
    assert {m["case_id"] for m in json.loads(as_json.out)["mismatches"]} == {"a", "b[/b]"}


def test_a_file_that_is_not_golden_is_refused_by_line(run: Arena, here: Path) -> None:
    (here / "golden.jsonl").write_text("{}")
    ended = run("problems", "score", "golden.jsonl")
    assert ended.status == 2
    assert "line 1" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("text", "words"), [("a: [", "not valid YAML"), ("name: n", "model"), ("- 1", "cannot be used")]
)
def test_a_plan_that_cannot_be_used_is_named(text: str, words: str, run: Arena, here: Path) -> None:
    (here / "plan.yaml").write_text(text)
    ended = run("distill", "run", "plan.yaml")
    assert ended.status == 2
    assert words in ended.err
    assert "plan.yaml" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_an_interrupted_demo_says_that_it_goes_on_later(here: Path) -> None:
    with Running(here, ["demo", "--data-dir=kept", "--products=300"], environment(here)) as demo:
        demo.wait_for("sandbox")
        assert demo.stop(signal.SIGINT) == 130
        demo.wait_for("stopped; start it again to go on")


GOLDEN = {
    "case_id": "a",
    "category": "product",
    "problem": {
        "query": "a lamp",
        "reward": {
            "product_id": "1",
            "title": ["lamp"],
            "sku_options": [],
            "attributes": [],
            "service": [],
            "price": [{"less than": [0, 10]}],
        },
    },
    "catalog": [
        {
            "product_id": "1",
            "shop_id": "s",
            "title": "lamp",
            "price": 5.0,
            "service": [],
            "sold_count": 1,
            "sku_options": {},
            "attributes": {},
            "short_description": "",
            "description": "",
        }
    ],
    "steps": [],
    "title_similarity": {},
    "expected": {"nonsense": 1.0},
    "success": True,
}
"""An answer that recommends nothing, with a score that no rule gives."""


def test_a_catalog_is_built_shown_and_searched(run: Arena) -> None:
    built = json.loads(run("catalog", "build", "--products=60", "--seed=2", "--out=c", "--json").out)
    assert built["products"] == 60
    assert built["peak_memory_bytes"] > built["index_bytes"] > 0
    shown = json.loads(run("catalog", "show", "c", "--find=sale", "--json").out)
    assert shown["catalog_id"] == built["catalog_id"]
    assert all("Sale" in listing["title"] for listing in shown["found"])
    assert "products: 60" in run("catalog", "show", "c").out


def test_a_missing_catalog_is_named_with_what_makes_one(run: Arena) -> None:
    refused(run("catalog", "show", "[c]"), "there is no catalog in [c]", "arena catalog build")


def test_an_import_says_what_it_left_out_and_why_it_stopped(run: Arena, here: Path) -> None:
    lines = [json.dumps({"product": {"product_id": str(i), "title": "red cup"}}) for i in range(20)]
    (here / "documents.jsonl").write_text("\n".join([*lines, "oops"]))
    stopped = run("catalog", "import", "documents.jsonl", "--out=c")
    refused(stopped, "1 of the first 21 lines", "line 21: Invalid JSON", "--max-bad-share")
    imported = run("catalog", "import", "documents.jsonl", "--out=c", "--max-bad-share=0.1")
    assert "left out: 1 lines; c/bad_lines.jsonl names them" in imported.out
    assert imported.status == 0
    refused(run("catalog", "import", "documents.jsonl", "--out=c"), "c holds a catalog already")
