"""What is kept of every delegation, on disk: readable with the stack down, and the truth for list, show and patch."""

from delegation.records.entry import Entry, Progress, Step
from delegation.records.store import RecordStore, Summary

__all__ = ["Entry", "Progress", "RecordStore", "Step", "Summary"]
