"""Conservation: nothing sold twice, nothing lost: accepted - returned + left = loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from aiodlock.testing.history.violation import Violation

__all__ = ["check_conservation"]


def check_conservation(
    loaded: int,
    *,
    accepted: Iterable[tuple[str, int]],
    left: Iterable[int],
    returned: Iterable[tuple[str, int]] = (),
) -> list[Violation]:
    """Check the books of a stock; *accepted* and *returned* are orders with their quantity, *left* is per segment.

    Every order whose outcome is unknown has to be asked for again before the books can be closed.
    """
    taken, back, rest = list(accepted), list(returned), list(left)
    found = [*_repeated("order accepted twice", taken), *_repeated("order returned twice", back)]
    if strangers := set(back) - set(taken):
        found.append(Violation("returned, never accepted", str(sorted(strangers)), tuple(strangers)))
    found += [Violation("oversold", f"segment {i} has {count} left") for i, count in enumerate(rest) if count < 0]
    sums = [sum(quantity for _, quantity in taken), sum(quantity for _, quantity in back), sum(rest)]
    if sums[0] - sums[1] + sums[2] != loaded:
        text = f"accepted {sums[0]} - returned {sums[1]} + left {sums[2]} is not loaded {loaded}"
        found.append(Violation("not conserved", text))
    return found


def _repeated(rule: str, moves: Sequence[tuple[str, int]]) -> list[Violation]:
    times = Counter(order for order, _ in moves)
    return [Violation(rule, f"{order!r}, {count} times", (order,)) for order, count in times.items() if count > 1]
