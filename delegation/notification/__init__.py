"""Telling somebody that a delegation, a night or a comparison has ended, by a command of theirs."""
