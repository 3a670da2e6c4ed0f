"""One measured line: ours beside its peers or its limit, measured in the same run, and the aim it has to meet."""

from typing import Literal

from pydantic import Field

from delegation.values import Value


class Aim(Value):
    """At most this much: of the value itself, of its ratio to its peer, or of what it is more than its peer."""

    of: Literal["ours", "ratio", "more"] = "ours"
    most: float

    def is_met(self, row: "Row") -> bool:
        value = {"ours": row.ours, "ratio": row.ratio, "more": row.more}[self.of]
        return value is not None and value <= self.most

    def __str__(self) -> str:
        return {"ours": "<= {:g}", "ratio": "ratio <= {:.2g}", "more": "<= {:g} more"}[self.of].format(self.most)


class Row(Value):
    """`ratio` is ours divided by the peer that `against` names. None where something could not be measured: `note` says
    why. Smaller is better, always; rates are turned into seconds per unit of work."""

    name: str
    unit: str
    ours: float | None
    peers: dict[str, float] = Field(default_factory=dict)
    against: str | None = None
    aims: tuple[Aim, ...] = ()
    note: str = ""

    @property
    def ratio(self) -> float | None:
        peer = self.peers.get(self.against) if self.against else None
        return None if self.ours is None or not peer else self.ours / peer

    @property
    def more(self) -> float | None:
        peer = self.peers.get(self.against) if self.against else None
        return None if self.ours is None or peer is None else self.ours - peer

    @property
    def met(self) -> bool | None:
        """Whether every aim is met; None without one."""
        return all(aim.is_met(self) for aim in self.aims) if self.aims else None

    def as_json(self) -> dict[str, object]:
        """What a reader of the file wants to know, the derived values included."""
        return {**self.model_dump(mode="json"), "ratio": self.ratio, "aim": self.aim, "met": self.met}

    @property
    def aim(self) -> str | None:
        return ", ".join(map(str, self.aims)) or None


def at_most(most: float) -> tuple[Aim, ...]:
    return (Aim(most=most),)


def ratio_at_most(most: float) -> tuple[Aim, ...]:
    return (Aim(of="ratio", most=most),)


def table(rows: list[Row]) -> str:
    """For a terminal: one line each, peers behind it."""
    lines = [f"{'row':<58}{'ours':>10} {'unit':<10}{'ratio':>7}  {'aim':<22}{'met':<5}peers"]
    for row in rows:
        peers = ", ".join(f"{name} {value:.4g}" for name, value in row.peers.items())
        met = {None: "", True: "yes", False: "NO"}[row.met]
        ours, ratio = number(row.ours), number(row.ratio, 2)
        said = "; ".join(filter(None, (peers, row.note)))
        lines.append(f"{row.name:<58}{ours:>10} {row.unit:<10}{ratio:>7}  {row.aim or '':<22}{met:<5}{said}")
    return "\n".join(lines)


def number(value: float | None, digits: int = 3) -> str:
    """As short as it can be said."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}f}".rstrip("0").rstrip(".") or "0"
