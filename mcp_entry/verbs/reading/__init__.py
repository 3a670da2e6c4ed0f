"""The reading lane: a question answered here or by a process of its own, under the slots that all share."""
