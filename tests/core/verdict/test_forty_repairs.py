"""Repairs that lie, repairs that are half done and honest ones, each judged by real runs in a real repository.

Nothing is 'passed' that should not be and nothing 'failed' that should not be. Where nobody can tell the honest from
the crooked without reading the change, the verdict is 'none'.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.core.verdict.repairs import elsewhere, loaded
from tests.core.verdict.repairs.elsewhere import FORGERS_ELSEWHERE, HONEST_ELSEWHERE, JEST, PLANTED_ELSEWHERE
from tests.core.verdict.repairs.forgers import FORGERS
from tests.core.verdict.repairs.honest import HONEST
from tests.core.verdict.repairs.loaded import HONEST_LOADED, PLANTED_LOADED
from tests.core.verdict.repairs.material import BASE, REPOSITORIES, RIGHT, WAVERING, Row
from tests.core.verdict.repairs.planted import PLANTED
from tests.core.verdict.repairs.wrong import EDITED_TESTS, WRONG_REPAIRS

CROOKED = [*WRONG_REPAIRS, *EDITED_TESTS, *PLANTED, *PLANTED_LOADED, *PLANTED_ELSEWHERE, *FORGERS, *FORGERS_ELSEWHERE]
HONEST_ROWS = [*HONEST, *HONEST_LOADED, *HONEST_ELSEWHERE]
ROWS = [*CROOKED, *HONEST_ROWS]
ALL_REPOSITORIES = {**REPOSITORIES, **loaded.REPOSITORIES, **elsewhere.REPOSITORIES}


def as_parameter(row: Row):
    marks = [pytest.mark.slow] if row.slow else []
    if row.needs and shutil.which(row.needs) is None:
        marks.append(pytest.mark.skip(reason=f"needs {row.needs}"))
    if row.repository == "jest" and not JEST.is_dir():
        marks.append(pytest.mark.skip(reason="needs `make programs`"))
    return pytest.param(row, id=row.name.replace(" ", "-"), marks=marks)


@pytest.fixture(scope="module")
def answers(request, tmp_path_factory, new_bench, rust_home):
    """The verdicts of the chosen rows to come, two at a time. Rows about one repository share it and its base."""
    benches = {name: new_bench(tmp_path_factory.mktemp("repo")) for name in ALL_REPOSITORIES}
    for name, bench in benches.items():
        bench.commit(ALL_REPOSITORIES[name])

    def judged(row: Row):
        bench, changes = benches[row.repository], row.changes
        if not changes:
            bench, changes = wavering(new_bench(tmp_path_factory.mktemp("counting")), on_base=row.verdict == "passed")
        record = tmp_path_factory.mktemp("record")
        return bench.verify(changes, **{"command": row.command, "record_dir": record} | row.options)

    chosen = [item.callspec.params["row"] for item in request.session.items if is_row(item) and not is_skipped(item)]
    with ThreadPoolExecutor(2) as pool:
        coming = {row.name: pool.submit(judged, row) for row in chosen}
        yield coming
        for future in coming.values():
            future.cancel()


def wavering(bench, *, on_base: bool):
    """A repository of its own, for the counter on disk that every second run of a test finds odd, and a change."""
    number = 1 if on_base else 2
    bench.commit({**BASE, "m.py": RIGHT, "tests/test_a.py": WAVERING.format(str(bench.root / "counter"), number)})
    return bench, {"m.py": RIGHT.replace("return 1", "return 1  #" if on_base else "return 2")}


def is_row(item: pytest.Item) -> bool:
    return "row" in getattr(getattr(item, "callspec", None), "params", {})


def is_skipped(item: pytest.Item) -> bool:
    return item.get_closest_marker("skip") is not None


@pytest.mark.parametrize("row", [as_parameter(row) for row in ROWS])
def test_a_repair_gets_the_verdict_it_deserves(row: Row, answers):
    answer = answers[row.name].result()
    assert (answer.verdict, row.why) == (row.verdict, row.why), answer.reason
    assert row.flag is None or row.flag in answer.flags
    assert row.says in str(answer.reason)
    assert answer.verdict == "passed" or answer.reason


def test_the_reference_lists_every_repair():
    head = ["| change | verdict | why |", "|---|---|---|"]
    table = "\n".join([*head, *(f"| {row.name} | `{row.verdict}` | {row.why} |" for row in ROWS)])
    reference = Path(__file__).parents[3] / "docs" / "reference" / "verdict.md"
    assert table in reference.read_text(encoding="utf-8"), f"docs/reference/verdict.md needs this table:\n{table}"


def test_there_are_forty_crooked_repairs_and_none_is_expected_to_pass():
    assert len(CROOKED) >= 40
    assert {row.verdict for row in CROOKED} == {"failed", "none"}
    assert {row.verdict for row in HONEST_ROWS} == {"passed", "none"}
    assert len({row.name for row in ROWS}) == len(ROWS)
