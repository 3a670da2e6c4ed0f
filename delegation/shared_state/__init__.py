"""State that every client, worker and host shares: our own tables beside Prefect's in the same database.

A Prefect Variable cannot hold it: 20 concurrent updates of one ended at 1.
"""

from delegation.shared_state.database import SharedState, UnusableTables, migrate
from delegation.shared_state.keys import Claim, claim

__all__ = ["Claim", "SharedState", "UnusableTables", "claim", "migrate"]
