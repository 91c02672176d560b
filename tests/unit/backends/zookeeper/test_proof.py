"""A session counts from what the leader has surely heard of, not from when it last answered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiodlock.backends.zookeeper.proof import Proof

SESSION, TICK = 9.0, 1.0
KEPT = 6.0  # two thirds of the session


def begun(at: float = 0.0, *, seconds: float = SESSION) -> Proof:
    proof = Proof(TICK)
    proof.begin(at, seconds)
    return proof


def test_nothing_is_believed_before_a_handshake_and_after_the_end() -> None:
    proof = Proof(TICK)
    assert proof.valid_until < 0
    proof.begin(1.0, SESSION)
    assert proof.valid_until == 1.0 + KEPT
    proof.end()
    assert proof.valid_until < 0


def test_an_answer_of_the_leader_after_a_silence_prolongs_nothing() -> None:
    """It says that the session is there; the next one, a tick later, says that the first request was heard of."""
    proof = begun()
    proof.hear(5.0, 5.1, of_leader=True)
    assert proof.valid_until == KEPT
    assert proof.more_at(5.1) == 5.1 + TICK
    proof.hear(6.0, 6.0, of_leader=True)  # less than a tick after the answer
    assert proof.valid_until == KEPT
    proof.hear(6.1, 6.2, of_leader=True)
    assert proof.valid_until == 5.0 + KEPT


def test_answers_of_a_follower_prolong_nothing_by_themselves() -> None:
    """It may have been cut off long ago; what was answered a tick before the leader was asked counts."""
    proof = begun()
    for at in (1.0, 2.0, 3.0, 4.0):
        proof.hear(at, at, of_leader=False)
    assert proof.valid_until == KEPT
    proof.hear(4.5, 4.6, of_leader=True)
    assert proof.valid_until == 3.0 + KEPT


def test_an_answer_that_took_long_counts_from_when_it_came() -> None:
    """Its request may have reached the follower just before: then that has not told the leader of it."""
    proof = begun()
    proof.hear(1.0, 4.0, of_leader=False)
    proof.hear(4.5, 4.6, of_leader=True)
    assert proof.valid_until == KEPT


def test_what_another_server_was_told_does_not_count() -> None:
    """A handshake begins anew."""
    proof = begun()
    proof.hear(1.0, 1.0, of_leader=False)
    proof.begin(0.5, SESSION)  # as if it had been sent before that
    proof.hear(3.0, 3.0, of_leader=True)
    assert proof.valid_until == 0.5 + KEPT


def test_of_a_short_session_a_quarter_is_enough() -> None:
    """Two ticks, say, of which a follower is asked four times."""
    proof = begun(seconds=2 * TICK)
    proof.hear(0.5, 0.5, of_leader=False)
    proof.hear(1.0, 1.0, of_leader=True)
    assert proof.valid_until == 0.5 + 2 * TICK * 2 / 3


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2), st.booleans()), max_size=200))
def test_it_never_counts_from_what_the_leader_may_not_know(requests: list[tuple[float, float, bool]]) -> None:
    """Compared with the rule applied to all that was ever answered."""
    proof, now, heard, since = begun(), 0.0, list[tuple[float, float]](), 0.0
    for pause, took, of_leader in requests:
        sent_at, now = now + pause, now + pause + took
        if of_leader:
            since = max([since, *(sent for sent, answered in heard if answered + TICK <= sent_at)])
        heard.append((sent_at, now))
        proof.hear(sent_at, now, of_leader=of_leader)
        assert proof.valid_until <= since + KEPT
    assert len(proof._answered) <= 16


@given(st.lists(st.booleans(), min_size=200, max_size=400))
def test_a_lively_client_is_believed_for_a_little_more_than_a_tick_less(of_leader: list[bool]) -> None:
    """However often it asks: what it keeps in mind is never all too new."""
    proof = begun()
    for number, is_so in enumerate(of_leader):
        proof.hear(number / 50, number / 50, of_leader=is_so)
    last = len(of_leader) / 50
    proof.hear(last, last, of_leader=True)
    assert proof.valid_until >= last - 1.25 * TICK + KEPT
