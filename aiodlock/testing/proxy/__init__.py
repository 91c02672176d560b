"""The fault proxy: stands between a client and a server and does what networks do.

::

    with FaultProxy(server.port) as proxy:
        client = connect(f"redis://127.0.0.1:{proxy.port}/0")
        proxy.delay(requests=0.05, replies=0.05)
        proxy.drop_reply(match=b"EVALSHA", every=3)      # the server does it, the client never hears
        late = proxy.hold_back(match=b"EVALSHA")         # one request, kept until late.deliver()
        proxy.heal()

It runs in a thread with a loop of its own, so it adds no task and no tick to the loop under test.
"""

from aiodlock.testing.proxy.controls import Counts, Edit
from aiodlock.testing.proxy.proxy import FaultProxy
from aiodlock.testing.proxy.rules import HeldBack, Match, Rule

__all__ = ["Counts", "Edit", "FaultProxy", "HeldBack", "Match", "Rule"]
