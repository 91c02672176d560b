"""One hot key, eight locks: votes are counted in the segment of each voter, and read under all of them."""

import asyncio
import os

import aiodlock

URL = os.environ.get("AIODLOCK_URL", "memory://examples")


class Poll:
    """Votes by segment, and how many voters were inside at once."""

    def __init__(self, segments: int) -> None:
        self.votes = [0] * segments
        self.inside = self.most = 0


async def vote(hot: aiodlock.SegmentedLock, voter: str, poll: Poll) -> None:
    async with hot.lock(voter) as hold:  # the same segment in every process: the key's hash decides
        poll.inside += 1
        poll.most = max(poll.most, poll.inside)
        votes = poll.votes[hold.segment]
        await asyncio.sleep(0.001)  # a read and a write that others must not come between
        poll.votes[hold.segment] = votes + 1
        poll.inside -= 1


async def browse(hot: aiodlock.SegmentedLock, voter: str) -> int:
    async with hot.lock(voter, steal=True) as hold:  # her own segment, or another one that is free
        await asyncio.sleep(0.05)
        return hold.segment


async def main() -> None:
    poll = Poll(segments=8)
    async with aiodlock.connect(URL) as locks:
        hot = locks.segmented("best-dish", segments=8)
        await asyncio.gather(*(vote(hot, f"voter-{n}", poll) for n in range(200)))
        async with hot.all():  # nobody votes while we count
            print(f"votes: {sum(poll.votes)}, in {sum(v > 0 for v in poll.votes)} segments")
        print(f"inside at once: {poll.most}")
        tabs = await asyncio.gather(*(browse(hot, "ann") for _ in range(3)))
        print(f"three tabs of ann, segments: {len(set(tabs))}")


asyncio.run(main())
