"""Until when a session surely lasts, told by what was answered: decided without I/O.

The leader ends a session that it has not heard of for its time-out. A follower notes whom it hears, whatever they send,
and tells the leader when that asks it, twice a tick. What it passes on for them does not prolong their session: the
leader only looks whether it is there. So the leader's answer, to a change or a ``sync``, does not say that the session
lasts a time-out from now. It says that whatever the follower had told before has arrived, and with it every request of
ours that was answered a tick before we asked: the session lasts a time-out from when that one was sent. A handshake is
the leader's own affair, and prolongs.
"""

from __future__ import annotations

from collections import deque

__all__ = ["Proof"]

_PARTS = 8  # of a tick: how finely the answers are kept apart
_NEVER = float("-inf")


class Proof:
    """What the leader surely knows of us. *tick*: of the servers, in seconds."""

    def __init__(self, tick: float) -> None:
        self.asked_at = _NEVER  # when the last request was sent that the leader answered
        self._tick = self._lag = tick
        self._seconds = 0.0
        self._since = _NEVER
        self._answered: deque[tuple[float, float]] = deque(maxlen=2 * _PARTS)  # sent and answered, over one connection

    @property
    def valid_until(self) -> float:
        """Until when the session surely lasts: a third of it is kept as a margin, for a leader that stumbles."""
        return self._since + self._seconds * 2 / 3

    def more_at(self, now: float) -> float:
        """Return from when on the leader's answer would tell more than we know."""
        return self._answered[0][1] + self._lag if self._answered else now

    def begin(self, sent_at: float, seconds: float) -> None:
        """Hear that the leader keeps the session for *seconds*: the answer to a handshake, which began at *sent_at*."""
        # A server may agree to two ticks only, and is asked twice a tick.
        self._seconds, self._lag = seconds, min(self._tick, seconds / 4)
        self.asked_at = self._since = sent_at
        self._answered.clear()  # what was said to another server may never have got to the leader

    def hear(self, sent_at: float, now: float, *, of_leader: bool) -> None:
        """Hear an answer to what was sent at *sent_at*."""
        if of_leader and sent_at > self.asked_at:
            self.asked_at = sent_at
            while self._answered and self._answered[0][1] + self._lag <= sent_at:
                self._since = max(self._since, self._answered.popleft()[0])
        if not self._answered or now - self._answered[-1][1] >= self._lag / _PARTS:
            self._answered.append((sent_at, now))

    def end(self) -> None:
        """Hear that the session has ended."""
        self.asked_at = self._since = _NEVER
        self._answered.clear()
