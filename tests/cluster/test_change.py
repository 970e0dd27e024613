"""Operators change the ring: voters, drain, leave, remove, and force when most voters are gone."""

import signal

import pytest

from harness import Command, Load, Stopwatch, wait_for
from harness.client import long_limit

LIMIT = 400
KEYS = 24


def ring(node):
    """Names in the ring, as `node` has it."""
    return sorted(member["name"] for member in node.admin("ring")["members"])


def voters(node):
    return sorted(node.admin("ring")["voters"])


def vnodes_held(node):
    return sum(node.counter(f"vnodes_{role}") for role in ("deciding", "replica", "recovering"))


def state_of(node, name):
    return node.members()[name]["state"]


def wait_known_dead(node, name):
    wait_for(lambda: state_of(node, name) == "dead", 40, f"{node} knows that {name} is dead")


def is_settled(nodes):
    """Whether these nodes say that nothing waits to happen, and mean the same configuration."""
    answers = [node.try_admin("status") for node in nodes]
    return all(answer is not None and answer["healthy"] for answer in answers) and \
        len({answer["epoch"] for answer in answers}) == 1


def wait_in_ring(cluster, names):
    """Waits until these make up the ring, as every node has it, and nothing waits to happen."""
    wait_for(lambda: [ring(node) for node in cluster] == [names] * len(cluster.nodes) and cluster.is_healthy(), 60,
             f"{names} make up the ring", 0.02)
    cluster.wait_healthy()


# One voter for one or two members, three from three on, five from five on; a restart of all
# changes neither them nor the configuration.
@pytest.mark.patient
def test_voters_grow_with_the_ring_and_survive_a_restart_of_all(new_cluster):
    cluster = new_cluster(3).start()
    wait_for(lambda: voters(cluster[0]) == ["n1", "n2", "n3"], 30, "three voters")
    for _ in range(2):
        cluster.add().start()
    cluster.wait_healthy(30)
    everybody = [f"n{number}" for number in range(1, 6)]
    wait_for(lambda: [voters(node) for node in cluster] == [everybody] * 5, 30, "five voters")
    wait_for(lambda: is_settled(cluster.nodes), 30, "nothing waits to happen")
    epoch = cluster[0].status()["epoch"]
    cluster.kill_all()
    cluster.start()
    assert {node.status()["epoch"] for node in cluster} == {epoch}
    assert [voters(node) for node in cluster] == [everybody] * 5
    wait_for(lambda: all(not node.status()["register"]["frozen"] for node in cluster), 20, "none of them is frozen")


# A dead voter is replaced, and the dead member is out; a living one is refused.
@pytest.mark.patient
def test_a_dead_member_is_removed_and_a_living_one_is_not(new_cluster, measured):
    cluster = new_cluster(4).start()
    refused = Command("remove", "n4", endpoints=[cluster[0].endpoint])
    assert refused.code == 3 and "n4 is alive" in refused.error and ring(cluster[0])[-1] == "n4"
    victim = cluster.node(voters(cluster[1])[-1])
    others = [node for node in cluster if node is not victim]
    victim.kill()
    wait_known_dead(others[-1], victim.name)
    watch = Stopwatch()
    done = Command("remove", victim.name, endpoints=[others[-1].endpoint])
    assert done.code == 0, done
    measured("remove of a dead voter", f"{watch.ms:.0f} ms")
    wait_for(lambda: is_settled(others), 30, "the others are healthy without it")
    names = [node.name for node in others]
    wait_for(lambda: [(ring(node), voters(node)) for node in others] == [(names, names)] * 3, 20,
             "it neither owns nor votes")
    unknown = Command("remove", "nobody", endpoints=[others[0].endpoint])
    assert unknown.code == 3 and "no member is called 'nobody'" in unknown.error
    victim.start()
    wait_in_ring(cluster, ["n1", "n2", "n3", "n4"])


# Two of three are gone: nothing can be agreed on, but the last goes on deciding. Forced, it goes on
# alone; when the others come back, all are one cluster again, in the new lineage.
@pytest.mark.patient
def test_a_frozen_ring_serves_and_is_forced_into_a_new_lineage(new_cluster):
    cluster = new_cluster(3).start()
    last, *lost = cluster
    with last.client() as client:
        client.check("kept", long_limit(10), cost=4)
    cluster.wait_replicated()
    epoch = last.status()["epoch"]
    for node in lost:
        node.kill()
    wait_for(lambda: last.status()["register"]["frozen"], 40, "the ring is frozen")
    reason = last.status()["register"]["reason"]
    assert "n2" in reason and "n3" in reason and reason.endswith("cannot be reached")
    with last.client() as client:
        assert client.check("kept", long_limit(10), cost=6).allowed
        assert not client.check("kept", long_limit(10)).allowed
    wait_known_dead(last, "n2")
    wait_known_dead(last, "n3")  # or it is refused to be removed
    refused = Command("remove", "n2", endpoints=[last.endpoint])
    assert refused.code == 3 and "frozen" in refused.error and "--force" in refused.error
    forced = Command("remove", "n2", "--force", endpoints=[last.endpoint])
    assert forced.code == 0 and "warning" in forced.error, forced
    assert ring(last) == ["n1", "n3"]
    removed = Command("remove", "n3", endpoints=[last.endpoint])
    assert removed.code == 0, removed
    assert ring(last) == ["n1"]
    wait_for(lambda: is_settled([last]), 10, "the ring without them is settled")
    assert last.status()["epoch"] > epoch and last.status()["register"]["lineage"] > 0
    for node in lost:
        node.start()
    wait_in_ring(cluster, ["n1", "n2", "n3"])
    assert len({node.status()["register"]["lineage"] for node in cluster}) == 1
    with cluster.client(1) as client:
        assert not client.check("kept", long_limit(10)).allowed


# What one node holds moves away under load: no count is lost, nobody sees an error, and the
# drained node goes on forwarding. Leaving, it ends as well.
@pytest.mark.undisturbed
@pytest.mark.parametrize("command", ["drain", "leave"])
def test_a_node_goes_under_load_without_a_loss_or_an_error(new_cluster, measured, command):
    cluster = new_cluster(3).start()
    keys = [f"{command}-{number}" for number in range(KEYS)]
    limit = long_limit(LIMIT)
    going, staying = cluster[0], cluster.nodes[1:]
    endpoints = cluster.endpoints if command == "drain" else [node.endpoint for node in staying]
    with Load(endpoints, keys, limit, threads=3, batch=2, window=2, pace_s=0.001) as load:
        wait_for(lambda: load.allowed() > 0.1 * LIMIT * KEYS, 20, "a tenth is used")
        load.pace_s = 0.02  # so that there is something left when the node is gone
        at_start = load.allowed()
        watch = Stopwatch()
        done = Command(command, endpoints=[going.endpoint], within_s=60)
        assert done.code == 0, done
        measured(f"{command} under load", f"{watch.ms:.0f} ms")
        answered = load.count()
        wait_for(lambda: load.count() > answered + 100, 20, "the load goes on")
        at_end = load.allowed()
        load.pace_s = 0.0  # the rest without rests
        wait_for(lambda: load.count() > 1.3 * LIMIT * KEYS, 60, "more than all was asked for")
    assert load.refusals == [] and load.unanswered == []
    assert at_start < at_end < LIMIT * KEYS, "the load was over before the node was gone"
    answers = load.all()
    assert sum(answer.undecided for answer in answers) == 0
    measured(f"checks during {command}", f"{load.count()}, of which asked twice "
             f"{sum(answer.items for answer in answers if answer.tries > 1)}")
    for key in keys:
        again = sum(answer.items for answer in answers if answer.key == key and answer.tries > 1)
        assert LIMIT - again <= load.allowed(key) <= LIMIT
    wait_for(lambda: [ring(node) for node in staying] == [["n2", "n3"]] * 2 and
             all(going.name not in voters(node) for node in staying), 20, "it neither owns nor votes")
    if command == "leave":
        assert going.wait_exit() == 0
        wait_for(lambda: state_of(staying[0], going.name) == "left", 10, "it has said good-bye")
        return
    assert vnodes_held(going) == 0
    wait_for(lambda: {node.members()[going.name]["ring"] for node in cluster} == {"drained"}, 20, "all know it")
    with going.client() as client:
        assert not client.check(keys[0], limit).allowed  # forwarded
    going.stop()
    going.start()
    wait_in_ring(cluster, ["n1", "n2", "n3"])


# The one that proposes stands still until it is taken for dead, and the others go on without it: a
# further node joins. Awake again it still believes in what it knew, and must not act on it.
@pytest.mark.patient
def test_a_proposer_that_stood_still_catches_up(new_cluster):
    cluster = new_cluster(3).start()
    ids = {name: member["id"] for name, member in cluster[0].members().items()}
    proposer = cluster.node(min(ids, key=ids.get))
    others = [node for node in cluster if node is not proposer]
    before = others[0].status()["epoch"]
    proposer.signal(signal.SIGSTOP)
    try:
        wait_known_dead(others[0], proposer.name)
        wait_known_dead(others[1], proposer.name)
        joined = cluster.add("--seed", others[0].gossip, "--seed", others[1].gossip)
        joined.start()
        wait_for(lambda: ring(others[0]) == ["n1", "n2", "n3", "n4"], 40, "n4 is in the ring")
    finally:
        proposer.signal(signal.SIGCONT)
    wait_in_ring(cluster, ["n1", "n2", "n3", "n4"])
    assert others[0].status()["epoch"] > before
    wait_for(lambda: len({tuple(voters(node)) for node in cluster}) == 1, 20, "all know the same voters")


# There is nobody to take over: said at once, and nothing happens.
def test_the_last_member_does_not_leave(new_cluster):
    cluster = new_cluster(1).start()
    for command in ("drain", "leave"):
        refused = Command(command, endpoints=[cluster[0].endpoint])
        assert refused.code == 3 and "the last member of the ring" in refused.error
    wait_for(lambda: is_settled(cluster.nodes), 20, "nothing waits to happen")
    assert cluster[0].is_running
