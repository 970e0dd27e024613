"""Every algorithm from the rules file to the command line, asked through nodes that do not decide."""

import datetime
import itertools
import os
import random
import struct
import subprocess
import time
import zoneinfo

import pytest

from harness import Cluster, Command, scaled, wait_for
from harness.node import program

pytestmark = pytest.mark.undisturbed


def zone_within_its_month():
    """A time zone whose month does not end while these tests run."""
    for name in ("Europe/Berlin", "Asia/Tokyo"):
        now = datetime.datetime.now(zoneinfo.ZoneInfo(name))
        if (now + datetime.timedelta(minutes=15)).month == now.month:
            break
    return name


RULES = f"""\
rules:
  - {{name: even, match: {{api: /even}}, key: [user],
     limits: [{{rate: 6/minute, algorithm: leaky_bucket, burst: 4}}]}}
  - {{name: cut, match: {{api: /cut}}, key: [user],
     limits: [{{rate: 3/h, algorithm: sliding_buckets, buckets: 12}}]}}
  - {{name: month, match: {{api: /month}}, key: [user],
     limits: [{{rate: 3/month, algorithm: fixed_window, align: calendar, timezone: {zone_within_its_month()}}}]}}
  - {{name: first, match: {{api: /first}}, key: [user],
     limits: [{{rate: 3/h, algorithm: fixed_window, align: first}}]}}
  - {{name: jobs, match: {{api: /job}}, key: [user],
     limits: [{{count: 3, algorithm: concurrency, timeout: 1h}}, {{rate: 100/h}}]}}
  - {{name: short, match: {{api: /short}}, key: [user],
     limits: [{{count: 3, algorithm: concurrency, timeout: 1s}}, {{rate: 100/h}}]}}
  - {{name: hot, match: {{api: /hot}}, key: [user], limits: [{{rate: 1000000/s}}]}}
  - {{name: near, match: {{api: /near}}, key: [user], consistency: any,
     limits: [{{rate: 200/h, algorithm: sliding_log}}]}}
"""


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """Three nodes with these rules."""
    folder = tmp_path_factory.mktemp("algorithms")
    (folder / "rules.yaml").write_text(RULES)
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        yield cluster.start()


def fresh():
    return f"{random.getrandbits(48):x}"


def ask(cluster, at, command, *arguments):
    return Command(command, *arguments, "-o", "json", endpoints=[cluster.nodes[at % 3].endpoint]).rows


def test_a_queue_tells_how_long_to_wait(ruled):
    user = fresh()
    rows = ask(ruled, 0, "check", "api=/even", f"user={user}", "--repeat", "4")
    assert all(row["allowed"] for row in rows)
    assert rows[0]["delay_ms"] == 0 and 0 < rows[1]["delay_ms"] <= 10_000
    assert [row["delay_ms"] for row in rows] == sorted(row["delay_ms"] for row in rows)


@pytest.mark.parametrize("api", ["/cut", "/month", "/first"])
def test_windows_admit_their_limit_through_any_node(ruled, api):
    user = fresh()
    allowed = [ask(ruled, at, "check", f"api={api}", f"user={user}")[0]["allowed"] for at in range(6)]
    assert allowed == [True] * 3 + [False] * 3


def test_what_is_in_flight_is_released_renewed_or_ends(ruled):
    user = fresh()
    leases = [ask(ruled, at, "lease", "api=/job", f"user={user}")[0].get("lease_id") for at in range(4)]
    assert len(set(leases[:3])) == 3 and all(leases[:3]) and leases[3] is None
    for at in range(3):
        done = Command("release", "--lease", leases[0], "api=/job", f"user={user}",
                       endpoints=[ruled.nodes[at].endpoint])
        assert done.code == 0, done
    free = ask(ruled, 1, "peek", "api=/job", f"user={user}", "--cost", "1")[0]
    assert free["allowed"]
    assert Command("renew", "--lease", leases[1], "api=/job", f"user={user}",
                   endpoints=[ruled.nodes[0].endpoint]).code == 0
    forgotten = ask(ruled, 0, "lease", "api=/short", f"user={user}")[0]["lease_id"]
    counter = itertools.count()
    wait_for(lambda: ask(ruled, next(counter), "peek", "api=/short", f"user={user}", "--cost", "3")[0]["allowed"],
             20, "the end of a lease that nobody released")
    assert Command("renew", "--lease", forgotten, "api=/short", f"user={user}",
                   endpoints=[ruled.nodes[0].endpoint]).code == 1


def test_an_inline_key_has_leases_too(ruled):
    key = fresh()
    first = ask(ruled, 0, "lease", "--key", key, "--rate", "1/30min")[0]
    assert first["allowed"] and len(first["lease_id"]) == 16
    assert not ask(ruled, 1, "lease", "--key", key, "--rate", "1/30min")[0]["allowed"]
    assert Command("renew", "--lease", first["lease_id"], "--key", key, "--rate", "1/30min",
                   endpoints=[ruled.nodes[2].endpoint]).code == 0


def test_a_block_of_tokens_is_leased_and_what_is_not_used_comes_back(ruled):
    def turn(number):
        key = ["--key", f"block-{number}-{fresh()}", "--rate", "100/h", "--algorithm", "sliding_log"]
        taken = []

        def leased():  # a decider that has just started grants none for a moment
            taken[:] = ask(ruled, 0, "lease", *key, "--cost", "60")
            return taken[0]["allowed"]
        wait_for(leased, 30, "a lease of tokens")
        held = taken[0]
        assert (held["granted"], held["used"]) == (60, 60) and 0 < held["lease_ms"] <= 1000
        assert not ask(ruled, 1, "check", *key, "--cost", "41")[0]["allowed"]
        back = ask(ruled, 2, "release", "--lease", held["lease_id"], "--used", "25", *key)[0]
        assert back["allowed"] and (back["granted"], back["used"]) in ((35, 25), (0, 60))
        return back["granted"] == 35  # else this machine took longer than the lease: it was spent

    assert any(turn(number) for number in range(10))


def test_nodes_that_hold_tokens_admit_the_limit_together(ruled):
    clients = [node.client(deadline_s=10) for node in ruled.nodes]

    def turn():
        user, end = fresh(), time.monotonic() + scaled(4)
        admitted = rest = 0
        while rest < 5 and time.monotonic() < end:  # and some more rounds, when it should be all
            rest += admitted >= 200
            for client in clients * 20:
                admitted += client.rules({"api": "/near", "user": user}).allowed
        assert admitted <= 200
        return admitted == 200  # else this machine stood still, and what a node held was spent

    try:
        assert any(turn() and sum(node.counter("any_allowed") for node in ruled.nodes) > 0
                   for _ in range(5))
    finally:
        for client in clients:
            client.close()


def counts_of(path):
    """What an example program `hot` has counted so far: allowed, and of them without asking."""
    data = path.read_bytes() if path.exists() else b""
    return struct.unpack("=QQ", data) if len(data) == 16 else (0, 0)


def test_holders_of_a_hot_key_admit_its_limit_also_when_one_is_killed(ruled, tmp_path, measured):
    """Eight processes share a key; one is killed with a lease. Whatever it held is spent: nobody admits it again."""
    limit, rate = 3000000, "3000000/3000d"
    hot = program("examples/hot") if os.path.exists(program("examples/hot")) else program("release/examples/hot")

    def turn():
        name = fresh()
        paths = [tmp_path / f"{name}-{number}" for number in range(8)]
        holders = [subprocess.Popen([hot, ruled.nodes[number % 3].endpoint, name, f"{rate},fixed_window", "2", "64", path],
                                    stdout=subprocess.DEVNULL)
                   for number, path in enumerate(paths)]
        killed = []

        def one_holds():
            killed[:] = [number for number, path in enumerate(paths) if counts_of(path)[1] > 100]
            return killed or all(holder.poll() is not None for holder in holders)
        try:
            wait_for(one_holds, 60, "one that admits with tokens of a lease")
            for number in killed[:1]:
                holders[number].kill()
            ended = [holder.wait(60) for number, holder in enumerate(holders) if number not in killed[:1]]
        finally:
            for holder in holders:
                holder.kill()
                holder.wait()
        allowed, local = (sum(column) for column in zip(*map(counts_of, paths)))
        used = ask(ruled, 1, "peek", "--key", name, "--rate", rate, "--algorithm", "fixed_window")[0]["used"]
        assert not any(ended) and allowed <= used <= limit
        measured("admitted by eight holders, one of them killed",
                 f"{allowed} of {limit}, {local} without asking; {used} are spent")
        return local > 1000  # else no node granted a lease in that time, or this machine stood still

    assert any(turn() for _ in range(5))


def test_a_block_ends_what_a_holder_admits(ruled, tmp_path):
    """A user whose checks are answered from a lease is blocked: his leases end, and nothing is admitted any more."""
    user, seen = fresh(), [time.monotonic(), (0, 0)]
    path = tmp_path / user
    hot = program("examples/hot") if os.path.exists(program("examples/hot")) else program("release/examples/hot")
    holder = subprocess.Popen([hot, ruled.nodes[0].endpoint, f"api=/hot,user={user}", "rules", "300", "64", path],
                              stdout=subprocess.DEVNULL)

    def has_ended():  # nothing was admitted for a time in which it would be, a thousand times
        now = counts_of(path)
        if now != seen[1]:
            seen[:] = [time.monotonic(), now]
        return time.monotonic() > seen[0] + 0.5
    try:
        wait_for(lambda: counts_of(path)[1] > 1000, 60, "a holder that admits with tokens of a lease")
        assert Command("block", f"user={user}", "--reason", "test", endpoints=[ruled.nodes[1].endpoint]).code == 0
        wait_for(has_ended, 30, "the end of all that is held for a blocked user")
        assert holder.poll() is None
    finally:
        holder.kill()
        holder.wait()


def test_a_lease_that_nobody_gives_is_refused_with_what_was_expected(ruled):
    user = fresh()
    inline = ask(ruled, 2, "lease", "--key", "b", "--rate", "1/s", "--algorithm", "leaky_bucket")[0]
    ruled_one = ask(ruled, 0, "lease", "api=/even", f"user={user}")[0]
    for row in (inline, ruled_one):
        assert not row["allowed"] and (row["outcome"], row["status"]) == ("error", 400)
        assert row["message"].startswith("lease: expected limits of one rule that give leases")
    shown = Command("release", "--lease", "0" * 15 + "1", "api=/even", f"user={user}",
                    endpoints=[ruled.nodes[1].endpoint])
    assert shown.code == 1 and "release: expected limits that give leases" in shown.output
    assert ask(ruled, 1, "peek", "api=/even", f"user={user}", "--cost", "0")[0]["used"] == 0
