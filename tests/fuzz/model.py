"""What all synchronizers are, in seventy lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

__all__ = ["Model", "Stage", "key_of"]

Stage = tuple[Sequence[str], int]  # lines of which one will do, the first before the others; and the weight there


class Model:
    """The front of a line is inside while the weights fit its size. Who wants several has one after the other."""

    def __init__(self, sizes: dict[str, float]) -> None:
        self.sizes = sizes
        self.resized: dict[str, float] = {}  # what the size is again when nobody is there
        self.inside: dict[str, dict[int, int]] = defaultdict(dict)
        self.waiting: dict[str, dict[int, int]] = defaultdict(dict)  # oldest first
        self.lacks: dict[int, list[Stage]] = {}  # what each one who is here will want next
        self.until: dict[int, float] = {}
        self.tied = False  # two who got in at once went on to the same line: which of them is first is left open

    def ask(self, who: int, stages: Iterable[Stage], until: float) -> None:
        self.lacks[who], self.until[who] = list(stages), until
        self.let_in(self._stand(who))

    def leave(self, who: int) -> None:
        del self.lacks[who]
        for line in (*self.inside.values(), *self.waiting.values()):
            line.pop(who, None)
        self.let_in(sorted(self.waiting, key=key_of))

    def lose(self, who: int, line: str) -> None:
        del self.inside[line][who]
        self.let_in([line])
        self.leave(who)

    def resize(self, line: str, size: float) -> None:
        if self.inside[line] or self.waiting[line]:  # else whoever comes next sets the size
            self.resized.setdefault(line, self.sizes[line])
            self.sizes[line] = size
            for who in [who for who, weight in self.waiting[line].items() if weight > size]:
                self.leave(who)
            self.let_in([line])

    def pass_time(self, now: float) -> None:
        for who in sorted(self.until, key=self.until.__getitem__):
            if self.until[who] <= now and who in self.lacks.keys() - self.through():
                self.leave(who)

    def through(self) -> set[int]:
        queues = self.waiting.values()
        return {who for who, lacks in self.lacks.items() if not lacks and not any(who in queue for queue in queues)}

    def let_in(self, lines: Iterable[str]) -> None:
        while lines:
            entered, left = list[int](), list[str]()
            for line in lines:
                for who, weight in list(self.waiting[line].items()):
                    if sum(self.inside[line].values()) + weight > self.sizes[line]:
                        break
                    self.inside[line][who] = weight
                    left += [name for name, queue in self.waiting.items() if queue.pop(who, None)]
                    entered.append(who)
            stood = [line for who in entered for line in self._stand(who)]
            self.tied = self.tied or len({*stood}) < len(stood)
            lines = left + stood

    def _stand(self, who: int) -> Sequence[str]:
        lines, weight = self.lacks[who].pop(0) if self.lacks[who] else ((), 0)
        for line in lines:
            if line in self.resized and not (self.inside[line] or self.waiting[line]):
                self.sizes[line] = self.resized.pop(line)
            self.waiting[line][who] = weight
        if any(0 < self.sizes[line] < weight for line in lines):  # it will never fit; a latch may still open
            self.leave(who)
        return lines


def key_of(line: str) -> str:
    return line.partition(":")[2]
