"""Writing a receipt on a disk without room is tried again; every other failure is not."""

import errno

import pytest
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Failed

from tasks.full_disk import is_full_disk


@task(name="probe", cache_policy=NO_CACHE)
def probe() -> None: ...


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (ValueError("x"), False),
    ],
)
def test_only_want_of_room_is_waited_for(error: Exception, expected: bool):
    assert is_full_disk(probe, None, Failed(data=error)) is expected  # pyright: ignore[reportArgumentType]
