"""Leases of rows that belong to a run: how long one stands, and why it is not taken away at the first sight of its end.

When a machine sleeps, or its clock is set forward, every lease on it seems to have ended at once although its holders
live. So whoever first sees an ended lease only writes down that it is doubted, and it is gone when its holder, who
renews every 20 s, has not done so for `DOUBT_SECONDS` of being watched. Both together are 60 s at most
where somebody looks every two seconds.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

RENEW_SECONDS = 20.0
FIRM_SECONDS = 30.0
DOUBT_SECONDS = 25.0  # more than one renewal's pause
_FIRM, _DOUBT = timedelta(seconds=FIRM_SECONDS), timedelta(seconds=DOUBT_SECONDS)
CLOCKS_APART = timedelta(seconds=10)
"""How far the clocks of two writers may be apart; more means that one was set."""


@dataclass(frozen=True)
class Lease:
    until: datetime | None
    doubted_at: datetime | None = None


def renewed(now: datetime) -> Lease:
    return Lease(now + _FIRM)


def settled(lease: Lease, now: datetime) -> Lease | None:
    """What the lease is at this moment; None when it is gone. An unreadable one, or one that ends later than any
    lease may (the clock was set back), stands for the usual time from now."""
    if lease.until is None or lease.until > now + _FIRM + CLOCKS_APART:
        return renewed(now)
    if lease.until >= now:
        return lease
    if lease.doubted_at is None or lease.doubted_at > now:
        return Lease(lease.until, now)
    return None if now - lease.doubted_at >= _DOUBT else lease


def is_firm(lease: Lease, now: datetime) -> bool:
    """Not ended yet. Enough to keep a place in a queue; a slot is also kept while the lease is doubted."""
    return lease.until is not None and lease.until >= now


def wants_renewal(lease: Lease, now: datetime) -> bool:
    """Whether a look at the row is worth a write."""
    return lease.until is None or lease.until < now + _FIRM - timedelta(seconds=FIRM_SECONDS / 3)
