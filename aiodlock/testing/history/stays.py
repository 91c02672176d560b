"""Stays: when who believed to be inside, made from the events that workers recorded.

A worker records three events::

    asked = record.now()                                             # before the request is sent
    record("inside", key="k", id=1, asked=asked, valid_until=..., fence=..., weight=1)
    record("renewed", key="k", id=1, valid_until=...)
    record("left", key="k", id=1)                                    # before the release is sent

*id* tells one ownership from the same worker's next. A second ``inside`` of the same id is a change in place, such as
the smaller weight after a downgrade. A worker that is killed or frozen leaves its stay open: it ends by its validity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from aiodlock.testing.history.record import Event, Json

__all__ = ["Stay", "stays"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """*who* asked at `asked`, and believed to be inside from `start` until `end`: released, or no longer valid.

    An answer that came too late gives a stay that ends before it starts. Nobody believed in that one, but its fence was
    given out.
    """

    key: str
    id: Json
    who: str
    asked: float
    start: float
    end: float
    weight: int = 1
    fence: int | None = None

    @property
    def believed(self) -> bool:
        return self.start < self.end


_Owner: TypeAlias = tuple[str, Json, Json]


def stays(events: Iterable[Event]) -> list[Stay]:
    """Return all stays in these events of any number of workers, in order of their start."""
    open_: dict[_Owner, Stay] = {}
    ended: list[Stay] = []
    for event in sorted(events, key=lambda event: event.at):
        owner = (event.who, event.facts.get("key"), event.facts.get("id"))
        if event.what in {"inside", "left"} and owner in open_:
            stay = open_.pop(owner)
            ended.append(replace(stay, end=min(stay.end, event.at)))
        if event.what == "inside":
            open_[owner] = _entered(event)
        elif event.what == "renewed" and owner in open_:
            open_[owner] = replace(open_[owner], end=max(open_[owner].end, _number(event, "valid_until")))
    return sorted([*ended, *open_.values()], key=lambda stay: stay.start)


def _entered(event: Event) -> Stay:
    return Stay(
        key=cast(str, event.facts["key"]),
        id=event.facts["id"],
        who=event.who,
        asked=_number(event, "asked"),
        start=event.at,
        end=_number(event, "valid_until"),
        weight=cast(int, event.facts.get("weight", 1)),
        fence=cast("int | None", event.facts.get("fence")),
    )


def _number(event: Event, name: str) -> float:
    return cast(float, event.facts[name])
