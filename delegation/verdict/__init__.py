"""The verdict: the verify command on the base and on the candidate, each in a clean checkout, compared test by test."""

from delegation.verdict.verification import verify

__all__ = ["verify"]
