"""More keys than memory holds: what was counted is found again on the disk."""

import os
import time

from harness import Cluster
from harness.client import long_limit

MEMORY = 32 << 20
# What a node needs besides, whatever --memory says. Most of it is one write-back: 32,768 slots of
# as many keys touch the chunks of all 4,096 vnodes, and LMDB holds each touched page until the
# commit: 4,096 x 3 pages of 4 KiB are 48 MiB. The rest: the batch as copied out (13 MiB), parts and
# requests that wait, retry memory, the loops' buffers, libzmq's queues of messages of 4,096 items,
# and what malloc keeps of all that. Seen: 87 to 94 MiB.
OVERHEAD = 112 << 20
EXHAUSTED = 1000
OTHERS = 1_000_000
BATCH = 4096
PER_S = 100_000  # what the disk of a small machine follows


def fill(node, count, limit):
    """Checks `count` keys once each at PER_S; the seconds it took and the most memory seen."""
    start = time.monotonic()
    most = 0
    with node.client(attempt_s=5, deadline_s=20) as client:
        for first in range(0, count, BATCH):
            keys = [b"other-%07d" % number for number in range(first, min(first + BATCH, count))]
            answers = client.ask(keys, limit)
            assert all(answer.allowed for answer in answers), \
                next(answer for answer in answers if not answer.allowed)
            most = max(most, node.anonymous_memory())
            ahead_s = start + (first + BATCH) / PER_S - time.monotonic()
            time.sleep(max(ahead_s, 0))  # the pace of the traffic; nothing is waited for
    return time.monotonic() - start, most


# A million other keys push a thousand exhausted ones out of memory, and none is forgotten.
def test_exhausted_keys_stay_denied_when_a_million_others_need_the_memory(tmp_path, measured):
    with Cluster(tmp_path, 1, "--memory", f"{MEMORY >> 20}M") as cluster:
        node = cluster.start()[0]
        limit = long_limit(3)
        keys = [f"exhausted-{number}" for number in range(EXHAUSTED)]
        with node.client() as client:
            assert all(answer.allowed for answer in client.ask(keys, limit, cost=3))
            assert not any(answer.allowed for answer in client.ask(keys, limit))
        before = node.anonymous_memory()
        seconds, most = fill(node, OTHERS, limit)
        shard = node.status()["shards"][0]
        measured("a million other keys", f"in {seconds:.1f} s; slots {shard['slots']} of "
                                         f"{shard['slots_max']}, evicted {shard['evicted']}, "
                                         f"forgotten {shard['forgotten']}")
        measured("anonymous memory", f"{before >> 20} MiB before, {most >> 20} MiB at most")
        assert shard["evicted"] > 0 and shard["forgotten"] == 0
        with node.client(attempt_s=5, deadline_s=20) as client:
            answers = []
            for first in range(0, EXHAUSTED, 100):
                answers += client.ask(keys[first:first + 100], limit)
        wrong = [answer for answer in answers if answer.outcome != "deny"]
        measured("exhausted keys still denied", f"{EXHAUSTED - len(wrong)} of {EXHAUSTED}; loads "
                                                f"{node.counter('loads')}")
        assert not wrong, wrong[:3]
        if "ASAN_OPTIONS" not in os.environ:
            assert most <= MEMORY + OVERHEAD
