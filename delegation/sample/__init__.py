"""The demo's repository and the scripted model that repairs it: real git, real HTTP, no model."""

from delegation.sample.repository import TASK, VERIFY, make_repository
from delegation.sample.session import repair

__all__ = ["TASK", "VERIFY", "make_repository", "repair"]
