"""A job in a worktree: where its git writes, what of the repository it may read, and the folder of its run."""

from collections.abc import Mapping
from pathlib import Path

from delegation.card import Confinement
from delegation.checkout.guarded import guarded_paths
from delegation.checkout.worktree import Worktree, agent_git_environment, git_places
from delegation.harnesses.harness import Job
from delegation.harnesses.order import Order
from delegation.receipt import Usage
from delegation.request import Endpoint


def job_in(
    worktree: Worktree,
    order: Order,
    task: str,
    *,
    confinement: Confinement = "auto",
    network: bool = True,
    search_path: str | None = None,
    most_processes: int = 512,
    environment: Mapping[str, str] | None = None,
    endpoint: Endpoint | None = None,
    key: str | None = None,
    thread_usage: Usage | None = None,
    needs_answer: bool = True,
) -> Job:
    """The job of one order in one worktree. Its place lies beside the tree and goes with it.

    `environment` is what the user lets agents have; git's own variables for this tree come with it. In a tree of ours
    git writes to the tree's own folder and object store and reads the repository's; in place, the user's own
    repository is given, but for what `guarded_paths` keeps.
    """
    git = git_places(worktree)
    own = (git.git_dir, git.objects) if git else _repository_in_place(worktree)
    shared = (git.common_dir,) if git else ()
    return Job(
        order=order,
        task=task,
        workdir=Path(worktree.workdir),
        tree=Path(worktree.root),
        place=Path(worktree.place) / "harness",
        environment={**(environment or {}), **agent_git_environment(worktree)},
        writable=own,
        readable=(*shared, *guarded_paths(worktree)),
        confinement=confinement,
        network=network,
        search_path=search_path,
        most_processes=most_processes,
        thread_usage=thread_usage,
        endpoint=endpoint,
        key=key,
        needs_answer=needs_answer,
    )


def _repository_in_place(worktree: Worktree) -> tuple[Path, ...]:
    """The git data of a linked worktree lies in another folder than its files."""
    common = Path(worktree.common_dir)
    outside = worktree.isolation == "in_place" and common.is_dir() and not common.is_relative_to(worktree.root)
    return (common,) if outside else ()
