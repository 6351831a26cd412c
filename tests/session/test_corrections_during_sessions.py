"""People at work beside a session: quality control, withdrawals and rechecks while documents are taken up."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from dcc.qc import models
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.contexts.states import decide_on_contexts as decide_on
from dcc.session.data.corrections import recheck, withdraw_submission
from dcc.session.data.quality_control import update_qc_states
from dcc.vocabulary import ContextEvent
from tests.session.test_data_new_causes import rebuilt
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens


def put(data: DataInstallation, numbers: range) -> None:
    for number in numbers:
        stem, first = f"2013-10-31.{number}", 10 * number + 1
        data.put(f"add/H.{stem}.impc.zip", specimens(stem, first=first), experiments(stem, first=first))


def test_nobody_is_in_the_way_of_a_session_or_it_of_them(data: DataInstallation) -> None:
    """No deadlock and no error; in the end the contexts hold what stands, and nothing is found in what is withdrawn."""
    put(data, range(6))
    data.run()
    put(data, range(6, 10))
    for number in range(3):
        stem, first = f"2013-11-0{number + 1}.1", 10 * number + 1
        data.put(f"edit/H.{stem}.impc.zip", specimens(stem, first=first), experiments(stem, first=first))
    data.validate()
    over = threading.Event()
    to_withdraw = [key_of(f"add/H.2013-10-31.{number}.impc.zip") for number in (3, 4, 5)]
    both = (data.tracker, data.qc, data.settings)

    def decide_on_contexts() -> None:
        decide_on(data.qc, ContextEvent.DONE, ContextFilter(), author="a wrangler", reason="looks right")
        update_qc_states(*both, author="a wrangler", reason="looks right")

    def judge_again() -> None:
        recheck(*both, author="a wrangler", reason="new rules")

    def withdraw() -> None:
        if to_withdraw:
            assert withdraw_submission(*both, to_withdraw.pop(), author="a wrangler", reason="a mistake").withdrawn

    def keep_at(work: Callable[[], None]) -> None:
        while not over.is_set():
            work()
            over.wait(0.05)

    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(keep_at, work) for work in (decide_on_contexts, judge_again, withdraw)]
        try:
            data.take_up()
        finally:
            over.set()
        for other in others:
            other.result(60)
    while to_withdraw:
        withdraw()
    data.take_up()
    data.take_up()
    assert set(data.documents().values()) <= {"qc pending", "qc done", "upload cancelled"}
    states = data.states()
    withdrawn = [number for number in range(10) if states[f"add/H.2013-10-31.{number}.impc.zip"].startswith("up")]
    assert withdrawn == [3, 4, 5]
    stands = {number for number, state in data.rows(models.DOCUMENT, "id", "state") if state == "applied"}
    assert {number for number, active in data.rows(models.FINDING, "document_id", "is_active") if active} <= stands
    rebuilt(data, 3 * 7)
