"""Guards: write only with a fence not older than the last, in one step with the write.

A lease ends while its holder sleeps; only what is written to can refuse the late writer. One module for each kind of
data: ``aiodlock.guards.redis``, ``aiodlock.guards.sql``.
"""
