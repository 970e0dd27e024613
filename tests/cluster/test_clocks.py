"""Nodes whose clocks are wrong, by faketime: each wall clock, and boot time too, moves while its node runs."""

import glob
import signal
import time

import pytest

from harness import Stopwatch, wait_for
from harness.client import ALGORITHMS, Limit, long_limit
from harness.waiting import is_slowed

NAMED_WITHIN_MS = 2000
S = 10**9
LIMIT = 10
HOUR_S = 3600
DAY_S = 24 * HOUR_S

pytestmark = [pytest.mark.patient, pytest.mark.skipif(is_slowed(), reason="a sanitizer must be loaded first")]


class Clock:
    """The clocks of one node: what they are off by is read by its process at each look at the time."""

    def __init__(self, node, folder, boot=False):
        libraries = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        assert libraries, "libfaketime is missing: `make deps` installs it"
        self.path = folder / f"{node.name}.clock"
        self.step_to(0)
        node.environment = {"LD_PRELOAD": libraries[0], "FAKETIME_TIMESTAMP_FILE": str(self.path),
                            "FAKETIME_NO_CACHE": "1"}
        if not boot:
            # Else what waits until a boot time is told of another one, which has passed, and turns in vain.
            node.environment |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}

    def step_to(self, seconds):
        fresh = self.path.with_suffix(".fresh")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.replace(self.path)  # at once, for it is read all the time


def sentences(node):
    status = node.try_admin("status")
    return status["reasons"] if status else []


def named(nodes, *texts):
    """Waits until the status of each node has a sentence with all the texts; how long that took."""
    watch = Stopwatch()
    open_ = list(nodes)

    def look():
        open_[:] = [node for node in open_
                    if not any(all(text in sentence for text in texts) for sentence in sentences(node))]
        return not open_
    wait_for(look, 20, f"the status of all names {texts}")
    return watch


def mended(cluster):
    wait_for(lambda: not any("time" in sentence or "wall clock" in sentence
                             for node in cluster.live for sentence in sentences(node)), 20,
             "no status speaks of clocks any more")


def verdicts(node):
    return {member["node"]: member["verdict"] for member in node.status()["clock"]["members"]}


def spend(cluster, keys, most):
    """Checks until all keys deny, through all nodes in turn; how many were admitted of each."""
    admitted = dict.fromkeys(keys, 0)
    for at in range(len(cluster.live)):
        with cluster.client(at, deadline_s=10) as client:
            for key, limit in keys.items():
                for _ in range(most):
                    answer = client.check(key, limit)
                    admitted[key] += answer.allowed
                    if not answer.allowed:
                        # A window that has just been filled weighs on the next one, down to a tenth of it.
                        assert answer.retry_after_ms <= 2 * limit.window_ns / 10**6, (key, answer)
    return admitted


def windowed(cluster, count=LIMIT):
    """Keys of each algorithm, of each decider."""
    return {key: long_limit(count, name) for name in ALGORITHMS if name in (
                "token_bucket", "fixed_window", "sliding_window", "sliding_log")
            for node in cluster for key in cluster.keys_decided_by(node.name, 2, f"{name}-{node}")}


# One wall clock goes an hour ahead and one ten minutes back, while their nodes decide: told by all, and nothing else.
def test_wrong_wall_clocks_are_told_of_and_change_no_decision(new_cluster, tmp_path, measured):
    cluster = new_cluster(3)
    clocks = [Clock(node, tmp_path) for node in cluster]
    cluster.start()
    keys = windowed(cluster)
    with cluster.client() as client:
        assert all(client.check(key, limit, cost=6).allowed for key, limit in keys.items())
    clocks[0].step_to(HOUR_S)
    ahead = named(cluster, "wall clock of n1", "ahead")
    clocks[1].step_to(-600)
    back = named(cluster, "wall clock of n2", "behind")
    named(cluster, "no majority of the ring agrees")
    measured("named by the status of every node after", f"{ahead.ms:.0f} ms and {back.ms:.0f} ms")
    assert max(ahead.own_ms, back.own_ms) <= NAMED_WITHIN_MS
    assert spend(cluster, keys, 6) == dict.fromkeys(keys, LIMIT - 6)
    assert sum(node.counter("takeovers") for node in cluster) == 0
    assert not any("starting again" in node.whole_log() for node in cluster)  # time went on evenly
    for clock in clocks:
        clock.step_to(0)
    mended(cluster)
    assert not any(spend(cluster, keys, 1).values())
    cluster.wait_healthy()


# A node that starts again an hour off goes by the time of the others, and what it decides is right.
@pytest.mark.parametrize("off_s", [HOUR_S, -600, DAY_S], ids=["hour", "ten-minutes-back", "day"])
def test_a_member_that_starts_with_a_wrong_clock_goes_by_the_others(new_cluster, tmp_path, off_s):
    cluster = new_cluster(3)
    clocks = [Clock(node, tmp_path) for node in cluster]
    cluster.start()
    keys = windowed(cluster)
    with cluster.client() as client:
        assert all(client.check(key, limit, cost=6).allowed for key, limit in keys.items())
    cluster.wait_written()
    assert cluster[2].stop() == 0
    clocks[2].step_to(off_s)
    cluster[2].start()
    assert "whose time it goes by" in cluster[2].log()
    named(cluster, "wall clock of n3")
    wait_for(lambda: all(told["decider"] == told["owner"] for told in map(cluster[0].owner, keys)),
             20, "it decides its keys again")
    assert spend(cluster, keys, 6) == dict.fromkeys(keys, LIMIT - 6)
    assert set(verdicts(cluster[0]).values()) == {"fine", "alarm"}


# Boot time and wall time of a decider jump by five seconds: it is named by all, has no say, and comes back by the others' time.
@pytest.mark.parametrize("step_s", [5, HOUR_S], ids=["5s", "hour"])
def test_a_decider_whose_boot_time_jumps_refills_nothing(new_cluster, tmp_path, measured, step_s):
    cluster = new_cluster(3)
    clock = Clock(cluster[2], tmp_path, boot=True)
    cluster.start()
    keys = {f"{name}-{key}": Limit(LIMIT, 20 * S, name) for name in ("token_bucket", "sliding_log")
            for key in cluster.keys_decided_by("n3", 5, name)}
    full = {key: long_limit(LIMIT, "fixed_window") for key in cluster.keys_decided_by("n3", 5, "w")}
    with cluster.client() as client:
        assert all(client.check(key, limit, cost=LIMIT).allowed for key, limit in {**keys, **full}.items())
    cluster.wait_replicated()
    began = time.monotonic()
    clock.step_to(step_s)
    told = named([cluster[0], cluster[1]], "the time of n3", "ahead")
    measured("named by the others after", f"{told.ms:.0f} ms")
    assert told.own_ms <= NAMED_WITHIN_MS
    admitted = 0
    with cluster.client(deadline_s=10) as client:
        answers = [client.check(key, limit) for key, limit in {**keys, **full}.items()]
        admitted = sum(answer.allowed for answer in answers)
        passed_s = time.monotonic() - began
        assert all(answer.retry_after_ms <= 20_000 for answer, key in zip(answers, keys))
    assert admitted <= len(keys) * (passed_s + 1) / 2  # of a token bucket one comes back in two seconds
    wait_for(lambda: "starting again, by the cluster's time" in cluster[2].whole_log(), 20, "it starts again")
    wait_for(lambda: all(told["decider"] == told["owner"] == "n3"
                         for told in map(cluster[0].owner, full)), 20, "it decides its keys again")
    named(cluster, "wall clock of n3", "ahead")  # and that alone is still off
    assert verdicts(cluster[0]) == {"n1": "fine", "n2": "fine", "n3": "alarm"}
    assert not any(spend(cluster, full, 1).values())


# A boot time that is set back would keep leases from ending: the node starts again at once, by the
# time of the others.
def test_a_decider_whose_boot_time_is_set_back_starts_again(new_cluster, tmp_path):
    cluster = new_cluster(3)
    clock = Clock(cluster[2], tmp_path, boot=True)
    cluster.start()
    full = {key: long_limit(LIMIT, "fixed_window")
            for key in cluster.keys_decided_by("n3", 5, "w")}
    with cluster.client() as client:
        assert all(client.check(key, limit, cost=LIMIT).allowed for key, limit in full.items())
    cluster.wait_replicated()  # it ends at once, as by a crash
    clock.step_to(-60)
    wait_for(lambda: "boot time was set back by" in cluster[2].whole_log(), 20, "it notices")
    wait_for(lambda: all(told["decider"] == told["owner"] == "n3"
                         for told in map(cluster[0].owner, full)), 20, "it decides its keys again")
    named(cluster, "wall clock of n3", "behind")
    assert not any(spend(cluster, full, 1).values())


# A newcomer a day off is kept outside, says why, and comes in when its clock is right.
def test_a_newcomer_a_day_off_is_held_outside_until_its_clock_is_right(new_cluster, tmp_path, measured):
    cluster = new_cluster(3).start()
    keys = windowed(cluster)
    with cluster.client() as client:
        assert all(client.check(key, limit, cost=6).allowed for key, limit in keys.items())
    joined = cluster.add()
    clock = Clock(joined, tmp_path)
    clock.step_to(DAY_S)
    joined.start()
    held = named(cluster, "n4 is kept out of the ring until its wall clock is right", "86400")
    measured("named by the status of every node after", f"{held.ms:.0f} ms")
    assert held.own_ms <= NAMED_WITHIN_MS
    assert "n4 is kept out of the ring" in joined.log()
    assert all(member["name"] != "n4" or member["vnodes"] == 0 for member in cluster[0].admin("members"))
    clock.step_to(0)
    cluster.wait_healthy()
    assert cluster[3].members()["n4"]["vnodes"] > 0
    assert spend(cluster, keys, 6) == dict.fromkeys(keys, LIMIT - 6)


# Two that disagree have no majority: both go on and both say so; neither limit breaks.
def test_two_nodes_that_disagree_go_on_and_say_so(new_cluster, tmp_path):
    cluster = new_cluster(2)
    clock = Clock(cluster[1], tmp_path, boot=True)
    cluster.start()
    clock.step_to(5)
    named(cluster, "no majority of the ring agrees on the time")
    limit = long_limit(LIMIT, "fixed_window")
    keys = {key: limit for node in cluster for key in cluster.keys_decided_by(node.name, 3, f"{node}")}
    assert spend(cluster, keys, LIMIT + 2) == dict.fromkeys(keys, LIMIT)
    assert "starting again" not in cluster[0].whole_log() + cluster[1].whole_log()


AGAIN = "starting again, by the cluster's time"


# A node that starts again for its clock goes on with the rules it had read: a file that was written since may be broken.
def test_a_clock_that_jumps_does_not_end_a_node_whose_rules_file_was_broken_since(new_cluster, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules:\n  - name: all\n    match: {api: /pay}\n    key: [user]\n    limits: [{rate: 7/24h}]\n")
    cluster = new_cluster(3, "--rules", str(rules))
    clock = Clock(cluster[2], tmp_path, boot=True)
    cluster.start()
    rules.write_text("rules: [")
    clock.step_to(5)
    wait_for(lambda: AGAIN in cluster[2].whole_log(), 20, "it starts again")
    wait_for(lambda: cluster[2].whole_log().count("serves") == 2 and cluster[2].is_running, 20, "it serves again")
    named(cluster, "wall clock of n3", "ahead")  # which is still off
    wait_for(lambda: all("wall clock" in reason for node in cluster for reason in sentences(node)), 20,
             "nothing else is wrong")
    assert cluster[2].is_running


# SIGTERM while a node passes its deciding on for its clock is an orderly stop, and the end.
def test_a_node_told_to_stop_while_it_starts_again_stops_in_order(new_cluster, tmp_path):
    cluster = new_cluster(3)
    clock = Clock(cluster[2], tmp_path, boot=True)
    cluster.start()
    clock.step_to(1)
    wait_for(lambda: "passing deciding on, to start again" in cluster[2].whole_log(), 20, "it is about to", 0.001)
    assert cluster[2].stop() == 0
    log = cluster[2].whole_log()
    assert "told to stop: this node does not start again" in log and AGAIN not in log, log
    assert log.rstrip().endswith("stopped")
    wait_for(lambda: "stopped, restart expected" in cluster[0].whole_log(), 20, "the others heard of it")


# One that founded its cluster, and keeps nothing, is of the same one when it has started again.
@pytest.mark.parametrize("step_s", [1, 5], ids=["passes", "refused"])
def test_an_ephemeral_founder_that_starts_again_founds_no_second_cluster(new_cluster, tmp_path, step_s):
    cluster = new_cluster(3, "--ephemeral")
    clock = Clock(cluster[0], tmp_path, boot=True)
    cluster.start()
    founded = cluster[1].status()["cluster_id"]
    clock.step_to(step_s)
    wait_for(lambda: AGAIN in cluster[0].whole_log(), 20, "it starts again")
    wait_for(lambda: cluster[0].whole_log().count("serves") == 2, 20, "it serves again")
    assert {node.status()["cluster_id"] for node in cluster} == {founded}


# All were stopped, and the one whose clock is wrong is the first that runs: the two others are a majority.
def test_after_a_full_stop_two_right_clocks_outvote_the_one_that_was_first(new_cluster, tmp_path):
    cluster = new_cluster(3)
    clocks = [Clock(node, tmp_path) for node in cluster]
    cluster.start()
    limit = long_limit(LIMIT, "fixed_window")
    keys = {key: limit for node in cluster for key in cluster.keys_decided_by(node.name, 3, f"{node}")}
    with cluster.client() as client:
        assert all(client.check(key, limit, cost=6).allowed for key in keys)
    cluster.wait_written()
    cluster.stop_all()
    clocks[0].step_to(HOUR_S)
    cluster[0].start()
    cluster[1].spawn()
    cluster[2].spawn()
    wait_for(lambda: AGAIN in cluster[0].whole_log(), 30, "the first starts again")
    named(cluster, "wall clock of n1", "ahead")
    assert all(AGAIN not in node.whole_log() for node in cluster.nodes[1:])
    assert spend(cluster, keys, 6) == dict.fromkeys(keys, LIMIT - 6)
