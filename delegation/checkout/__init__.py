"""Trees the work happens in: made from a recorded commit, turned into a patch, never lost."""
