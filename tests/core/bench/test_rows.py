"""The shape of a benchmark's rows, and the page that is written from them."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from tests.bench import page
from tests.bench.__main__ import GROUPS
from tests.bench.rows import Aim, Row, at_most, ratio_at_most, table
from tests.bench.usage import cpu_seconds, pss_mb, spending, tree, wakeups


def test_a_ratio_is_to_the_named_peer_and_an_aim_may_be_of_three_kinds():
    row = Row(name="r", unit="s", ours=1.0, peers={"a": 4.0, "b": 2.0}, against="a", aims=at_most(1.5))
    assert (row.ratio, row.more, row.met, row.aim) == (0.25, -3.0, True, "<= 1.5")
    assert row.model_copy(update={"aims": ratio_at_most(0.2)}).met is False
    assert row.model_copy(update={"aims": (Aim(of="more", most=0.2),)}).met is True
    assert row.model_copy(update={"aims": ()}).met is None


def test_what_could_not_be_measured_meets_no_aim():
    row = Row(name="r", unit="s", ours=None, against="a", aims=at_most(1.5), note="no such program")
    assert (row.ratio, row.met) == (None, False)
    assert "no such program" in table([row])


def test_a_row_is_read_back_from_its_json_as_it_was():
    row = Row(
        name="r", unit="s", ours=1.0, peers={"a": 4.0}, against="a", aims=(Aim(most=2.0), Aim(of="ratio", most=0.3))
    )
    kept = json.loads(json.dumps(row.as_json()))
    assert (kept["ratio"], kept["met"], kept["aim"]) == (0.25, True, "<= 2, ratio <= 0.3")
    assert Row.model_validate({name: kept[name] for name in Row.model_fields}) == row


@pytest.mark.skipif(not page.FIGURES.exists(), reason="nothing was measured yet")
def test_the_page_holds_the_figures_that_were_measured_last():
    kept = json.loads(page.FIGURES.read_text(encoding="utf-8"))
    assert set(kept) <= set(GROUPS)
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.page_with(kept, text) == text


def test_cpu_of_a_tree_holds_what_ended_in_it():
    spin = "import time\nwhile time.process_time() < 0.2: pass"
    run = f"subprocess.run([sys.executable, '-S', '-c', {spin!r}])"
    code = f"import subprocess, sys, time\n{run}\nprint(1, flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as child:
        try:
            with spending(child=child.pid) as spent:
                assert child.stdout is not None
                child.stdout.readline()
            assert cpu_seconds(tree(child.pid)) > 0.18
            assert spent.by_process["child"] > 0.15
            assert pss_mb(tree(child.pid)) > 1
        finally:
            child.kill()


def test_wake_ups_are_those_of_every_thread():
    me = [psutil.Process(os.getpid())]
    before = wakeups(me)
    for _ in range(20):
        time.sleep(0.001)
    assert wakeups(me) - before >= 20
