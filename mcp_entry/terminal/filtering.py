"""Options that say which delegations are meant: the same for list, stats and export."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from cyclopts import Parameter


def _option(help_: str, *names: str) -> Parameter:
    return Parameter(name=names or None, help=help_, negative="", show_default=False)


@dataclass(frozen=True)
class FilterOptions:
    """What is not given restricts nothing."""

    repo: Annotated[str | None, _option("A repository: its path, a folder inside it, or its name.")] = None
    model: Annotated[str | None, _option("Alias of a model, asked for or at work; * and ? stand for anything.")] = None
    outcome: Annotated[
        list[str] | None, _option("An outcome, or unfinished; several by commas or by giving it again.")
    ] = None
    since: Annotated[str | None, _option("Submitted since: 90min, 2h, 3d, 1w, today, or a date.")] = None
    until: Annotated[str | None, _option("Submitted before then, written alike; a day counts whole.")] = None
    agent: Annotated[str | None, _option("Name of an agent; * and ? stand for anything.")] = None
    lane: Annotated[str | None, _option("local, flat_plan, metered or subscription_cli.")] = None
    tag: Annotated[str | None, _option("A tag of its run in the UI, such as bucket:qwen or outcome:refuted.")] = None
    parent: Annotated[str | None, _option("Made from that delegation by rerun; an ID.")] = None
    night: Annotated[str | None, _option("Of that night shift.")] = None
    text: Annotated[str | None, _option("Occurs anywhere in task, answer or claim, in capitals or not.")] = None

    @property
    def words(self) -> Mapping[str, Any]:
        return asdict(self)


NO_FILTER = FilterOptions()
Filters = Annotated[FilterOptions, Parameter(name="*")]
