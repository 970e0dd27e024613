"""A flood of addresses, more than memory holds: what was counted is found again on the disk."""

import os
import time

from harness import Cluster, wait_for

MEMORY = 16 << 20
# What a node needs besides, whatever --memory says. Most of it is one write-back: 32,768 slots of
# as many keys touch the chunks of all 4,096 vnodes, and LMDB holds each touched page until the
# commit: 4,096 x 3 pages of 4 KiB are 48 MiB. The rest: the batch as copied out (13 MiB), parts and
# requests that wait, retry memory, the loops' buffers, libzmq's queues of messages of 4,096 items,
# and what malloc keeps of all that. Seen: 87 to 107 MiB.
OVERHEAD = 120 << 20
USERS = 1000
OTHERS = 500_000
BATCH = 4096
PER_S = 100_000  # what the disk of a small machine follows; one that does not is waited for
BEHIND_MS = 2000


RULES = """\
rules:
  - name: log-in
    match: {api: /login}
    key: [ip]
    limits: [{rate: 3/30d}]
"""


def address(number, rest=1):
    """The n-th address of its own: every other one IPv4, the others each in a /64 of its own."""
    high, low = divmod(number // 2, 65536)
    if number % 2 == 0:
        return b"10.%d.%d.%d" % (high, low >> 8, low & 255)
    return b"2001:db8:%x:%x::%x" % (high, low, rest)


def log_in(client, addresses, **options):
    return client.ask([(b"/login", ip) for ip in addresses], ["api", "ip"], **options)


def flood(node, first_number, count):
    """One log-in from each of `count` addresses at PER_S; the seconds it took and the most memory."""
    start = time.monotonic()
    most = 0
    with node.client(attempt_s=5, deadline_s=20) as client:
        for first in range(0, count, BATCH):
            numbers = range(first_number + first, first_number + min(first + BATCH, count))
            answers = log_in(client, [address(number) for number in numbers])
            assert all(answer.allowed for answer in answers), \
                next(answer for answer in answers if not answer.allowed)
            most = max(most, node.anonymous_memory())
            ahead_s = start + (first + BATCH) / PER_S - time.monotonic()
            time.sleep(max(ahead_s, 0))  # the pace of the traffic; nothing is waited for
            wait_for(lambda: node.status()["storage"]["flush_lag_ms"] < BEHIND_MS, 60, "the disk follows", 0.05)
    return time.monotonic() - start, most


# Half a million addresses push a thousand users out of memory that have used up their log-ins, and none
# is forgotten. An attacker who has a whole IPv6 network has no more than one address of it.
def test_users_stay_denied_when_half_a_million_other_addresses_need_the_memory(tmp_path, measured):
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    with Cluster(tmp_path, 1, "--memory", f"{MEMORY >> 20}M", "--rules", str(rules)) as cluster:
        node = cluster.start()[0]
        with node.client() as client:
            users = [address(number) for number in range(USERS)]
            assert all(answer.allowed for answer in log_in(client, users, cost=3))
            assert not any(answer.allowed for answer in log_in(client, users))
            slots = node.counter("slots")
            network = [address(USERS + 1, rest) for rest in range(1, BATCH)]
            assert sum(answer.allowed for answer in log_in(client, network)) == 3
            assert node.counter("slots") == slots + 1
        before = node.anonymous_memory()
        seconds, most = flood(node, USERS + 2, OTHERS)
        shard = node.fresh_status()["shards"][0]
        measured("half a million other addresses", f"in {seconds:.1f} s; slots {shard['slots']} of "
                                                   f"{shard['slots_max']}, evicted {shard['evicted']}, "
                                                   f"forgotten {shard['forgotten']}")
        measured("anonymous memory", f"{before >> 20} MiB before, {most >> 20} MiB at most")
        assert shard["evicted"] > 0 and shard["forgotten"] == 0
        with node.client(attempt_s=5, deadline_s=20) as client:
            answers = []
            for first in range(0, USERS, 100):
                again = [address(number, 77) for number in range(first, first + 100)]
                answers += log_in(client, again)
        wrong = [answer for answer in answers if answer.outcome != "deny"]
        measured("users still denied", f"{USERS - len(wrong)} of {USERS}; loads "
                                        f"{node.counter('loads')}")
        assert not wrong, wrong[:3]
        if "ASAN_OPTIONS" not in os.environ:
            assert most <= MEMORY + OVERHEAD
