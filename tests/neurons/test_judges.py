"""Which judge the settings choose."""

from __future__ import annotations

from typing import Any

import pytest

from judge.grounded import GroundedJudge
from judge.judgement import Judgement
from judge.panel import Panel
from judge.scripted_judge import honest, serve
from neurons.judges import chosen_judge
from neurons.settings import SettingsError, load
from storage.database import Database
from tests.judge.panel.conftest import episode


def _model(name: str, base_url: str = "http://127.0.0.1:9/v1") -> dict[str, Any]:
    return {"base_url": base_url, "model": name, "prompt_price": 1.0, "completion_price": 2.0}


async def test_without_models_the_grounded_judge_sits_alone(database: Database) -> None:
    async with chosen_judge(load(), database) as judge:
        assert isinstance(judge, GroundedJudge)


async def test_with_models_a_panel_of_them_judges_and_keeps_what_they_said(database: Database) -> None:
    async with serve({"a": honest(4), "b": honest(4)}) as judges:
        models = [_model("a", judges.base_url), _model("b", judges.base_url)]
        settings = load({"judge": {"models": models}})
        for _ in range(2):
            async with chosen_judge(settings, database) as judge:
                said = await judge.judge(episode())
                assert isinstance(said, Judgement)
                assert len(said.votes) == 2
        assert (judges.count("a"), judges.count("b")) == (1, 1)


@pytest.mark.parametrize(("number", "k", "quorum"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (5, 3, 2)], ids=str)
async def test_three_are_asked_where_there_are_as_many_and_more_than_half_must_answer(
    database: Database, number: int, k: int, quorum: int
) -> None:
    settings = load({"judge": {"models": [_model(f"m{n}") for n in range(number)]}})
    async with chosen_judge(settings, database) as judge:
        assert isinstance(judge, Panel)
        assert (judge.rules.k, judge.rules.quorum) == (k, quorum)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"models": [_model("a")], "k": 2}, "needs as many models"),
        ({"models": [_model("a"), _model("a")]}, "may sit on a panel once"),
        ({"models": [_model("a")], "quorum": 2}, "quorum of 2"),
        ({"models": [_model("a", "http://key@h/v1")]}, "the key has a setting of its own"),
    ],
)
async def test_a_panel_that_cannot_sit_is_a_mistake_in_the_settings(
    database: Database, judge: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        async with chosen_judge(load({"judge": judge}), database):
            pass
