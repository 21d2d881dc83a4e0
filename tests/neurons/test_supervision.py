"""A program that is never half alive."""

from __future__ import annotations

import asyncio
import logging

import pytest

from neurons.supervision import Part, PartFailed, Patience, together

SOON = Patience(failures=3, within_s=60.0, first_pause_s=0.0)


async def _for_ever() -> None:
    await asyncio.Event().wait()


async def test_a_part_that_fails_a_few_times_is_started_again_and_the_others_do_not_notice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    starts, begun, settled = [], [], asyncio.Event()

    async def shaky() -> None:
        starts.append(1)
        if len(starts) <= SOON.failures:
            raise OSError("the disk hiccupped")
        settled.set()
        await _for_ever()

    async def steady() -> None:
        begun.append(1)
        await _for_ever()

    shaky_part = Part("the shaky one", shaky)
    running = asyncio.create_task(together([shaky_part, Part("the steady one", steady)], patience=SOON))
    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(settled.wait(), 30)
    assert (len(starts), len(begun), shaky_part.failures) == (SOON.failures + 1, 1, SOON.failures)
    assert "the shaky one failed (OSError: the disk hiccupped)" in caplog.text
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_part_that_goes_on_failing_ends_the_program_which_names_it() -> None:
    ended = asyncio.Event()

    async def broken() -> None:
        raise OSError("no space left")

    async def other() -> None:
        try:
            await _for_ever()
        finally:
            ended.set()

    with pytest.raises(PartFailed, match=r"the broken one failed 4 times .* OSError: no space left"):
        await together([Part("the broken one", broken), Part("the other", other)], patience=SOON)
    assert ended.is_set()


async def test_a_part_that_ends_by_itself_has_failed() -> None:
    async def over() -> None:
        return

    with pytest.raises(PartFailed, match="it ended, and should not have"):
        await together([Part("short", over)], patience=SOON)


async def test_what_no_restart_mends_ends_the_program_at_once_as_it_is() -> None:
    starts = []

    async def broken() -> None:
        starts.append(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await together(
            [Part("broken", broken), Part("steady", _for_ever)],
            fatal=lambda error: isinstance(error, KeyError),
        )
    assert len(starts) == 1


async def test_failures_long_ago_are_forgiven() -> None:
    starts, settled = [], asyncio.Event()

    async def shaky() -> None:
        starts.append(1)
        if len(starts) > 10:
            settled.set()
            await _for_ever()
        await asyncio.sleep(0.01)
        raise OSError

    patience = Patience(failures=2, within_s=0.005, first_pause_s=0.0)
    running = asyncio.create_task(together([Part("shaky", shaky)], patience=patience))
    await asyncio.wait_for(settled.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
