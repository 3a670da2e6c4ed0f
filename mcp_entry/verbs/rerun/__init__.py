"""Doing a delegation again: from the start, from a step, with a message more, or its verdict alone."""
