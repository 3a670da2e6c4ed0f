"""Second step: a tree of its own for the agent, set up, with a snapshot to measure its changes from."""

from pathlib import Path

from delegation.checkout import worktree as trees
from delegation.checkout.patch import apply_in
from delegation.checkout.worktree import Worktree
from delegation.confinement import find_confiner
from delegation.errors import WorkFailed
from delegation.files import publish, text_or_none
from delegation.request import DelegationRequest
from delegation.steps.place import begin_step, home, record_folder

_SETUP_TIMEOUT_SECONDS = 1800.0
