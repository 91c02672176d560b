"""Who is inside and whom to watch, from a listing alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiodlock._core.line import TicketId
from aiodlock.backends.zookeeper.paths import Node
from aiodlock.backends.zookeeper.standing import blocker, standing_of

lines = st.lists(st.integers(1, 4), min_size=1, max_size=8)


def nodes(*weights: int) -> list[Node]:
    return [Node(f"n{number}", TicketId(f"t{number}"), weight, number) for number, weight in enumerate(weights)]


@given(lines, st.integers(4, 6))
def test_somebody_inside_stays_inside_whoever_leaves(weights: list[int], size: int) -> None:
    line = nodes(*weights)
    inside = [node for node in line if (s := standing_of(node.name, line, size=size)) and s.inside]
    for leaving in line:
        rest = [node for node in line if node is not leaving]
        for node in inside:
            standing = standing_of(node.name, rest, size=size)
            assert standing is None or standing.inside


@given(lines, st.integers(4, 6), st.data())
def test_nobody_enters_while_the_one_he_watches_is_there(weights: list[int], size: int, data: st.DataObject) -> None:
    """Whoever else leaves; where no single one decides, the first who waits watches all."""
    line = nodes(*weights)
    last = standing_of(line[-1].name, line, size=size)
    assert last is not None
    if last.inside:
        return
    watched = blocker(last.ahead, line[-1].weight, size=size)
    if watched is None:
        assert all((s := standing_of(node.name, line, size=size)) and s.inside for node in last.ahead)
        return
    others = [node for node in last.ahead if node is not watched]
    kept = data.draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    rest = [node for node in line if node in kept or node is watched or node is line[-1]]
    standing = standing_of(line[-1].name, rest, size=size)
    assert standing is not None
    first = standing_of(watched.name, rest, size=size)
    assert not standing.inside or (first is not None and first.inside and watched.weight < size > line[-1].weight)


def test_a_writer_watches_the_one_before_it_and_a_reader_the_last_writer() -> None:
    line = nodes(8, 1, 1, 8, 1)
    assert blocker(line[:3], 8, size=8) is line[2]
    assert blocker(line[:2], 1, size=8) is line[0]
    assert blocker(line[:4], 1, size=8) is line[3]


def test_in_a_semaphore_the_first_who_waits_watches_all_and_the_next_one_him() -> None:
    line = nodes(1, 1, 2, 1)
    assert blocker(line[:2], 2, size=3) is None
    assert blocker(line[:3], 1, size=3) is line[2]


def test_company_is_whoever_waits() -> None:
    line = nodes(1, 1, 2)
    first, last = standing_of("n0", line, size=3), standing_of("n2", line, size=3)
    assert first is not None
    assert last is not None
    assert (first.inside, first.company, first.behind) == (True, True, True)
    assert (last.inside, last.behind, len(last.ahead)) == (False, False, 2)
    assert standing_of("n9", line, size=3) is None
