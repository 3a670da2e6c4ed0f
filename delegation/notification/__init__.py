"""Telling somebody that a night or a delegation has ended, by a command of theirs."""
