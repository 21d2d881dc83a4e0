from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from arena.rules import BudgetRules
from arena.sandbox import staging
from arena.sandbox.probe import PROBE_SLOT
from arena.sandbox.sandbox import SandboxUnavailable
from neurons.host import (
    claimed_slots,
    prepared_world,
    provider,
    publish_plan,
    published_plan,
    seeded,
    socket_root,
)
from neurons.settings import ModelSettings, ProblemSettings, SettingsError, WebSettings
from problems.shopping.embedding import EmbedderMissing
from problems.shopping.world import WorldError
from storage.database import Database


def test_sockets_lie_in_one_short_folder_that_is_gone_afterwards() -> None:
    root = staging.socket_root()
    before = set(root.iterdir()) if root.exists() else set()
    with socket_root() as folder:
        assert folder.parent == root
        assert len(os.fsencode(folder)) <= 81 - len("/recorder.sock")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o711
        (folder / "left").touch()
    assert set(root.iterdir()) - before == set()


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not() -> None:
    left = staging.socket_folder("held-")
    (left / "s").touch()
    with socket_root() as living:
        for folder in (left, living):
            os.utime(folder, (0, 0))
        with socket_root():
            assert not left.exists()
            assert living.exists()


@pytest.fixture
def taken() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_no_two_claims_share_a_slot(taken: ExitStack) -> None:
    firsts = [taken.enter_context(claimed_slots(count)) for count in (3, 2, 4)]
    slots = [
        slot for first, count in zip(firsts, (3, 2, 4), strict=True) for slot in range(first, first + count)
    ]
    assert len(set(slots)) == 9
    assert max(slots) < PROBE_SLOT


def test_slots_are_free_again_after_their_claim() -> None:
    for _ in range(PROBE_SLOT):
        with claimed_slots(2):
            pass


def test_a_host_without_room_says_so(taken: ExitStack) -> None:
    taken.enter_context(claimed_slots(1))
    with pytest.raises(SandboxUnavailable, match="fewer --slots"), claimed_slots(PROBE_SLOT):
        pass


@pytest.mark.parametrize(
    "model", [ModelSettings(), ModelSettings(base_url="http://x/v1"), ModelSettings(models=("m",))]
)
async def test_a_model_endpoint_needs_an_address_and_a_name(model: ModelSettings) -> None:
    with pytest.raises(SettingsError, match="no model endpoint"):
        async with provider(model, BudgetRules()):
            pass


async def test_the_provider_offers_the_models_in_order() -> None:
    async with provider(ModelSettings(base_url="http://x/v1", models=("a", "b")), BudgetRules()) as upstream:
        assert upstream.models == ("a", "b")
        assert upstream.resolve("default") == "a"


async def test_a_budget_in_dollars_needs_the_price_of_every_model() -> None:
    model = ModelSettings.model_validate(
        {"base_url": "http://x/v1", "models": ("a", "b"), "prices": {"a": {"prompt": 1, "completion": 2}}}
    )
    with pytest.raises(SettingsError, match=r"no price for b: set it, .* in model\.prices"):
        async with provider(model, BudgetRules(usd=0.5)):
            pass
    async with provider(model, BudgetRules()) as upstream:
        assert upstream.prices["a"].completion == 2


def test_without_a_seed_a_secret_one_is_drawn_once(tmp_path: Path) -> None:
    plan = ProblemSettings(products=300, pool=3)
    roots = []
    for folder in ("a", "a", "b"):
        world = prepared_world(plan, tmp_path / folder / "world", public=3)
        roots.append(world.pool.suite_id)
        with closing(os.scandir(tmp_path / folder)) as entries:
            assert {entry.name for entry in entries} == {"world", "world.seed"}
    assert roots[0] == roots[1] != roots[2]
    assert stat.S_IMODE((tmp_path / "a" / "world.seed").stat().st_mode) == 0o600


def test_a_world_is_made_by_its_seed_and_kept_to_it(tmp_path: Path) -> None:
    worlds = [
        prepared_world(ProblemSettings(seed=7, products=300, pool=3), tmp_path / name, public=3)
        for name in ("a", "b")
    ]
    assert worlds[0].pool.suite_id == worlds[1].pool.suite_id
    with pytest.raises(WorldError, match="another plan"):
        prepared_world(ProblemSettings(seed=8, products=300, pool=3), tmp_path / "a", public=3)


async def test_a_worker_elsewhere_makes_the_validators_world_from_the_database_alone(
    database: Database, tmp_path: Path
) -> None:
    theirs = seeded(ProblemSettings(products=300, pool=3), tmp_path / "validator")
    made = prepared_world(theirs, tmp_path / "validator", public=3)
    await publish_plan(database, theirs, public=3)
    await publish_plan(database, theirs, public=3)  # a validator that starts again

    planned = await published_plan(database, ProblemSettings())
    assert planned is not None
    found = prepared_world(planned[0], tmp_path / "worker", public=planned[1])
    assert found.public.suite_id == made.public.suite_id
    assert found.pool.suite_id == made.pool.suite_id


async def test_without_a_validator_there_is_no_plan(database: Database) -> None:
    assert await published_plan(database, ProblemSettings()) is None


async def test_a_worker_is_asked_where_shoppingbench_lies_on_its_host(
    database: Database, tmp_path: Path
) -> None:
    await publish_plan(database, ProblemSettings(path=tmp_path / "theirs", seed=1), public=3)
    with pytest.raises(SettingsError, match="--problems"):
        await published_plan(database, ProblemSettings())
    planned = await published_plan(database, ProblemSettings(path=tmp_path / "ours"))
    assert planned is not None
    assert planned[0].path == tmp_path / "ours"
    assert planned[0].seed == 1


def test_web_tasks_are_played_with_a_store_of_snippets_and_in_no_other_world(tmp_path: Path) -> None:
    record = {"product_id": "9", "title": "Violin bow", "price": 20, "shop_id": "s"}
    tasks = {
        "synthesize_web_simpleqa_test.jsonl": [
            {"query": "A bow for what Aitken played", "Knowledge_Attribute": "Violin", "reward": record}
        ],
        "synthesize_product_test.jsonl": [
            {"query": f"I need a {thing}", "reward": {"product_id": str(n), "title": [thing]}}
            for n, thing in enumerate(("red woollen hat", "desk lamp", "oak table", "frying pan"))
        ],
    }
    for name, lines in tasks.items():
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    snippets = tmp_path / "snippets.jsonl"
    snippets.write_text('{"url": "u", "title": "Aitken", "content": "He played the violin."}\n')
    plan = ProblemSettings(seed=1, path=tmp_path)
    stored = WebSettings(provider="snippets", snippets=snippets)
    world = prepared_world(plan, tmp_path / "w" / "world", public=2, web=stored)
    every = (*world.public.problems, *world.pool.problems)
    (web,) = [p for p in every if p.problem.category == "web"]
    assert [tool.name for tool in world.environment.tools(web.problem)][-1] == "web_search"
    assert world.environment.call("web_search", {"q": "what did Aitken play"}).content[0]["url"] == "u"
    with pytest.raises(WorldError, match="another plan"):
        prepared_world(plan, tmp_path / "w" / "world", public=2)
    without = prepared_world(plan, tmp_path / "x" / "world", public=1)
    assert [name for name, _ in without.refused] == ["web:1"]


async def test_a_worker_must_search_the_web_as_the_validator_does(database: Database, tmp_path: Path) -> None:
    stored = WebSettings(provider="snippets", snippets=tmp_path / "s.jsonl")
    plan = ProblemSettings(seed=1)
    await publish_plan(database, plan, public=3, web=stored)
    assert await published_plan(database, plan, stored) == (plan, 3)
    with pytest.raises(SettingsError, match=r'web\.provider = "snippets"'):
        await published_plan(database, plan)


def test_a_world_that_is_scored_in_another_way_is_another_world(tmp_path: Path) -> None:
    plan = ProblemSettings(seed=7, products=300, pool=3)
    world = prepared_world(plan, tmp_path / "world", public=3)
    parity = plan.model_copy(update={"parity": "shoppingbench"})
    with pytest.raises(WorldError, match="another plan"):
        prepared_world(parity, tmp_path / "world", public=3)
    other = prepared_world(parity, tmp_path / "parity" / "world", public=3)
    assert other.public.scorer != world.public.scorer
    assert other.public.suite_id != world.public.suite_id


def test_without_the_embedding_model_a_world_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    plan = ProblemSettings(
        seed=7, products=300, pool=3, similarity="embedding", embedding_model=str(tmp_path / "model")
    )
    with pytest.raises(EmbedderMissing):
        prepared_world(plan, tmp_path / "world", public=3)
