"""The route in a Redis Cluster: one connection per master used, every line found by the slot of its key.

A line's calls come on a sharded channel in its slot, one for all lines of this client there, named after the first. It
is subscribed on a connection before the first command about such a line goes over it, with no round trip of its own.
A slot that moves takes its lines along; where it is now is learned from the servers' redirections, and whoever waits
looks again, because a call may have gone out where nobody listened.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from redis.crc import key_slot

from aiodlock.backends.redis.address import Address
from aiodlock.backends.redis.calls import Calls
from aiodlock.backends.redis.member import Member, RedirectedError
from aiodlock.backends.redis.node import Node
from aiodlock.backends.redis.request import Request
from aiodlock.backends.redis.route import PING
from aiodlock.backends.redis.scripts import command, to_none
from aiodlock.backends.redis.slots import Redirection, SlotMap, Spot
from aiodlock.backends.redis.wire import Link
from aiodlock.errors import BackendError, BackendUnavailableError

__all__ = ["Cluster"]

_T = TypeVar("_T")

_MOST_HOPS = 5  # redirections of one command, before whoever sent it has to send it again
_PAUSE = 0.05  # between two looks at the map, so that a resharding of many slots is one of them
_PAUSE_IN_TROUBLE = 0.2  # while a master is away and nobody has taken over

_SLOTS, _ASKING = command("CLUSTER", "SLOTS"), command("ASKING")


def _to_listening(reply: Any, via: int) -> None:
    """Take the confirmation of a subscription; also how such a command is known from others."""


def _to_allowed(reply: Any, via: int) -> None:
    """Take any answer but a refusal for the right to listen."""


class Cluster:
    """The route in a cluster; *seeds* are asked for the map, the others are found by it.

    *remap* turns the host and port that a server announces into those that lead to it, where they differ.
    """

    def __init__(
        self,
        seeds: Sequence[Address],
        calls: Calls,
        *,
        name: str,
        patience: float,
        remap: Callable[[Spot], Spot] | None = None,
        min_replicas: int = 0,
    ) -> None:
        self._min_replicas = min_replicas
        self._seeds = seeds
        self._calls = calls
        self._name = name
        self._patience = patience
        self._remap = remap or (lambda spot: spot)
        self._vias = itertools.count(1)
        self._map = SlotMap()
        self._members: dict[Spot, Member] = {}
        self._retired: list[Member] = []  # masters no more, not yet closed
        self._channels: dict[int, bytes] = {}
        self._has_moved = False  # a slot that we listen to: whoever waits has to look
        self._stale = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Learn the map from the first server that answers, or raise; connections are made when they are needed."""
        await self._learn()
        self._keeper = asyncio.create_task(self._keep(), name="aiodlock: cluster map")

    async def aclose(self) -> None:
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        members = [*self._members.values(), *self._retired]
        self._members, self._map = {}, SlotMap()  # whoever comes now finds nobody
        await asyncio.gather(*(member.aclose() for member in members))

    async def ping(self) -> None:
        """Be answered by every master: a cluster with one away cannot serve every key."""
        await asyncio.gather(*[node.send(PING, to_none) for node in self.masters()])

    def channel(self, key: bytes) -> bytes:
        if not self._calls.pushes:
            return b""
        slot = key_slot(key)
        if slot not in self._channels:
            self._channels[slot] = self._calls.keys.channel_near(key, self._calls.client)
        return self._channels[slot]

    def take(self, key: bytes, request: Request[_T]) -> Request[_T]:
        slot = key_slot(key)
        if (member := self._member_of(slot, request)) is not None:
            self._listen(member, slot)
            member.node.take(request)
        return request

    def grant(self, key: bytes, request: Request[_T]) -> Request[_T]:
        if not self._min_replicas:
            return self.take(key, request)
        slot = key_slot(key)
        if (member := self._member_of(slot, request)) is not None:
            self._send_grant(slot, request, member)
        return request

    def _member_of(self, slot: int, request: Request[Any]) -> Member | None:
        """Return the server that *request* is for; where there is none, it fails."""
        spot = self._map.owner(slot)
        if spot is not None:
            return self._members.get(spot) or self._join(spot)
        self._stale.set()
        request.fail(BackendUnavailableError(f"no server of the cluster serves slot {slot}"))
        return None

    def masters(self) -> Sequence[Node]:
        return [(self._members.get(spot) or self._join(spot)).node for spot in self._map.masters]

    # --- members ---------------------------------------------------------------------------------------------

    def _join(self, spot: Spot) -> Member:
        member = self._members[spot] = Member(spot, self._node(spot, self._address(spot)))
        member.node.start()
        if self._min_replicas:
            member.confirm_by(self._granting_node(spot), replicas=self._min_replicas, within=self._patience / 3)
        return member

    def _granting_node(self, spot: Spot) -> Node:
        return Node(
            self._address(spot),
            name=self._name,
            greet=_no_greeting,
            on_down=self._stale.set,
            on_refused=partial(self._refused_grant, spot),
            hear=self._calls.hear,
            patience=self._patience,
            vias=self._vias,
            merges=False,  # a call is for one slot
        )

    def _address(self, spot: Spot) -> Address:
        host, port = self._remap(spot)
        return replace(self._seeds[0], host=host, port=port)

    def _node(self, spot: Spot, address: Address) -> Node:
        return Node(
            address,
            name=self._name,
            greet=self._greet,
            on_push=partial(self._pushed, spot),
            on_up=self._calls.reconnected,
            on_down=partial(self._lost, spot),
            on_refused=partial(self._refused, spot),
            hear=self._calls.hear,
            patience=self._patience,
            vias=self._vias,
            merges=False,  # a call is for one slot
        )

    async def _greet(self, link: Link) -> None:
        """See that this user may listen at all: otherwise everybody would wait longer, and nobody know why."""
        if self._calls.pushes:
            await link.send(command("SSUBSCRIBE", self._calls.channel), _to_allowed)

    def _listen(self, member: Member, slot: int, *, asking: bool = False) -> None:
        """Subscribe to the slot's channel there, unless that is done; what is sent next comes behind it."""
        channel = self._channels.get(slot)
        if channel is None or channel in member.channels:
            return
        member.channels.add(channel)
        if asking:
            member.node.send(_ASKING, to_none).future.add_done_callback(_look_at)
        listening = member.asked[channel] = member.node.send(command("SSUBSCRIBE", channel), _to_listening).future
        listening.add_done_callback(partial(member.heard, channel))

    def _lost(self, spot: Spot) -> None:
        if member := self._members.get(spot):
            member.channels.clear()
            self._stale.set()

    def _pushed(self, spot: Spot, push: list[Any], via: int) -> None:
        if push[0] != b"sunsubscribe":
            self._calls.pushed(push, via)
        elif member := self._members.get(spot):  # we never unsubscribe: the slot has left this server
            member.channels.discard(push[1])
            self._has_moved = True
            self._stale.set()

    # --- joins and renewals that replicas confirm --------------------------------------------------------------

    def _send_grant(self, slot: int, request: Request[Any], member: Member, *, asking: bool = False) -> None:
        """Send it over the member's second connection, when the first one hears the calls that may follow."""
        self._listen(member, slot, asking=asking)
        assert member.grants is not None
        grants, first, sent = member.grants, _ASKING if asking else None, request.again()
        sent.future.add_done_callback(partial(self._granted, slot, request))
        listening = member.asked.get(self._channels.get(slot, b""))
        if listening is None:
            grants.take(sent, first=first)
        else:
            listening.add_done_callback(lambda _: grants.take(sent, first=first))

    def _granted(self, slot: int, request: Request[Any], answer: asyncio.Future[Any]) -> None:
        error = answer.exception()
        if request.done():
            return
        if isinstance(error, RedirectedError) and request.hops < _MOST_HOPS and not self._is_closed:
            request.hops += 1
            redirection = error.redirection
            self._send_grant(slot, request, self._follow(redirection), asking=not redirection.is_for_good)
        elif error is not None:
            request.fail(error)
        else:
            request.arrive(answer.result())

    def _refused_grant(self, spot: Spot, request: Request[Any], error: str) -> bool:
        """Tell where it belongs: it has to be confirmed there."""
        redirection = Redirection.of(error, spot)
        if redirection is not None:
            request.fail(RedirectedError(redirection, f"{spot[0]}:{spot[1]}: {error}"))
        elif error.startswith("CLUSTERDOWN"):
            self._stale.set()
        return redirection is not None

    # --- redirections ----------------------------------------------------------------------------------------

    def _refused(self, spot: Spot, request: Request[Any], error: str) -> bool:
        """Send a command on to where it belongs; a refused one has done nothing."""
        redirection, is_down = Redirection.of(error, spot), error.startswith("CLUSTERDOWN")
        if is_down:
            self._stale.set()
        if request.decode is _to_allowed and (redirection or is_down):
            request.arrive(None)
            return True
        if redirection is None or request.decode is _to_listening:
            return False
        request.hops += 1
        if request.hops > _MOST_HOPS:
            request.fail(BackendUnavailableError(f"sent from server to server {_MOST_HOPS} times: {error}"))
            return True
        member = self._follow(redirection)
        self._listen(member, redirection.slot, asking=not redirection.is_for_good)
        if not redirection.is_for_good:
            member.node.send(_ASKING, to_none).future.add_done_callback(_look_at)
        member.node.take(request)
        return True

    def _follow(self, redirection: Redirection) -> Member:
        """Return the server that is meant, and remember it if the slot is there for good."""
        if redirection.is_for_good:
            self._map.move(redirection.slot, redirection.spot)
            self._stale.set()
        return self._members.get(redirection.spot) or self._join(redirection.spot)

    # --- the map ---------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Look at the map whenever something says that it is old, again and again while a master is away."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            has_moved, self._has_moved = self._has_moved, False
            try:
                has_moved |= await self._learn()
            except BackendError:
                self._stale.set()
            await self._retire()
            if has_moved:
                # What hearing it raises must not end this task.
                asyncio.get_running_loop().call_soon(self._calls.reconnected, 0)
            if any(not member.node.is_up for member in self._members.values()):
                self._stale.set()
            await asyncio.sleep((_PAUSE_IN_TROUBLE if self._stale.is_set() else _PAUSE) * random.uniform(0.5, 1.5))

    async def look(self) -> SlotMap:
        """Return the map as it is now, and change nothing."""
        found = SlotMap()
        found.learn(*await self._ask_around())
        return found

    async def _learn(self) -> bool:
        """Take over the map as it is now; return whether it has changed."""
        return self._map.learn(*await self._ask_around())

    async def _ask_around(self) -> tuple[Any, Spot]:
        """Ask one server after the other for the map; return the first answer, and whose it is."""
        refusals: list[BackendError | TimeoutError] = []
        for spot, address in self._informants():
            try:
                async with asyncio.timeout(self._patience / 3):  # one that hangs must not keep us from the others
                    return await self._ask_for_slots(spot, address), spot
            except (BackendError, TimeoutError) as error:
                refusals.append(error)
        last = refusals[-1]
        if isinstance(last, BackendUnavailableError | TimeoutError):
            raise BackendUnavailableError(f"no server of the cluster answers; the last: {last}") from last
        raise last

    def _informants(self) -> Iterator[tuple[Spot, Address]]:
        """Yield those we are connected with, in any order, then all others that we know of."""
        up = {spot for spot, member in self._members.items() if member.node.is_up}
        known = {*self._map.masters, *self._map.replicas} - up
        for spot in (*random.sample(sorted(up), len(up)), *random.sample(sorted(known), len(known))):
            yield spot, self._address(spot)
        yield from (((seed.host, seed.port), seed) for seed in self._seeds)

    async def _ask_for_slots(self, spot: Spot, address: Address) -> Any:
        member = self._members.get(spot)
        if member is not None and member.node.is_up:
            return await member.node.send(_SLOTS, _as_it_is)
        node = self._node(spot, address)
        try:
            await node.open()
            return await node.send(_SLOTS, _as_it_is)
        finally:
            await node.aclose()

    async def _retire(self) -> None:
        """Part with servers that are masters no more; one that is getting its first slots is kept."""
        for spot, member in list(self._members.items()):
            if spot not in self._map.masters and (spot in self._map.replicas or not member.node.is_up):
                self._retired.append(self._members.pop(spot))
        await asyncio.gather(*(member.aclose() for member in self._retired))
        self._retired.clear()


def _as_it_is(reply: Any, via: int) -> Any:
    return reply


async def _no_greeting(link: Link) -> None:
    """Prepare nothing: it carries no calls, and a server that is no master says where to go."""


def _look_at(done: asyncio.Future[None]) -> None:
    done.exception()  # the command behind it fails as well
