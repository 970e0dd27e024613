"""A data directory that is not what its node needs is told as what it is, and nothing is forgotten in silence."""

import os

import pytest

from harness import Node, wait_for
from harness.client import long_limit
from harness.ports import take_block


@pytest.fixture
def ports():
    block = take_block()
    yield block
    block.close()


@pytest.fixture
def pair(tmp_path, ports):
    """Two nodes that know nothing of each other."""
    nodes = [Node(tmp_path, name, ports.first + 10 * number) for number, name in enumerate(("one", "two"))]
    yield nodes
    for node in nodes:
        node.close()


def use_up(node, key="a"):
    with node.client() as client:
        assert [client.check(key, long_limit(5)).allowed for _ in range(6)] == [True] * 5 + [False]


def truncate(node, part, length):
    os.truncate(os.path.join(node.data, part, "data.mdb"), length)


# A state of length 0 is no new store, in which used-up keys would be admitted again.
@pytest.mark.smoke
@pytest.mark.parametrize("length", [0, 1, 4097])
def test_a_state_that_was_cut_off_is_refused_like_other_damage(pair, length):
    node = pair[0].start()
    use_up(node)
    assert node.stop() == 0
    truncate(node, "state", length)
    for _ in range(2):
        node.spawn()
        assert node.wait_exit(30) == 3, node.log()
        assert "state/data.mdb: " in node.log() and "--rebuild" in node.log()
    node.start("--rebuild")
    assert "identity and promises could be read and stay" in node.log()
    assert node.stop() == 0
    node.start()  # and is a whole store again


# Who founded a cluster and lost its identity would found another one: that is not done in silence.
def test_a_founder_without_its_identity_is_not_rebuilt_into_a_second_cluster(pair):
    node = pair[0].start()
    before = node.status()["cluster_id"]
    assert node.stop() == 0
    truncate(node, "meta", 0)
    node.spawn()
    assert node.wait_exit(30) == 3 and "meta/data.mdb: is empty" in node.log(), node.log()
    node.spawn("--rebuild")
    assert node.wait_exit(30) == 3, node.log()
    assert "--seed" in node.log() and "--bootstrap" in node.log()
    assert not [name for name in os.listdir(os.path.dirname(node.data)) if "set-aside" in name]
    node.start("--rebuild", "--bootstrap")
    assert "so this is a new node" in node.log()
    assert node.status()["cluster_id"] != before


# A data directory of one cluster among the seeds of another: log and status say so, and it ends.
def test_a_data_directory_of_another_cluster_than_the_seeds_is_told(pair):
    here, moved = pair
    here.start()
    moved.start()
    ids = [node.status()["cluster_id"] for node in pair]
    use_up(moved)
    assert moved.stop() == 0
    seed = f"127.0.0.1:{here.port + 2}"
    moved.start("--seed", seed)
    told = f"seed {seed} (one) is of cluster {ids[0]}, this node of cluster {ids[1]}"
    wait_for(lambda: told in moved.status()["reasons"], 20, "its status says so")
    assert moved.status()["healthy"] is False
    assert moved.wait_exit(30) == 3, moved.log()
    assert moved.log().count(f" {told}\n") == 1
    assert f"{moved.data}: {told}, and nobody of its own is heard" in moved.log()
    assert here.status()["healthy"] is True and here.status()["members"]["alive"] == 1
    moved.start()  # with its own seeds it goes on where it was
    with moved.client() as client:
        assert not client.check("a", long_limit(5)).allowed


# A directory that cannot be written is told as that, also by --rebuild.
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_read_only_data_directory_is_told_as_that(pair):
    node = pair[0].start()
    assert node.stop() == 0
    script = 'data=$1; shift; mount --bind "$data" "$data" && mount -o remount,bind,ro "$data" && exec "$@"'
    for more in ([], ["--rebuild"]):
        node.spawn(command=["unshare", "--mount", "sh", "-c", script, "-", node.data, *node.command(*more)])
        assert node.wait_exit(30) == 3, node.log()
        assert f"{node.data}: is read-only for user 0: Read-only file system" in node.log()
    node.start()


# Where the data directory is a volume of its own, the store is set aside inside it.
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_store_on_a_volume_of_its_own_is_rebuilt_inside_it(pair):
    node = pair[0].start()
    assert node.stop() == 0
    truncate(node, "state", 0)
    script = 'data=$1; shift; mount --bind "$data" "$data" && exec "$@"'
    node.spawn(command=["unshare", "--mount", "sh", "-c", script, "-", node.data, *node.command("--rebuild")])
    node.wait_ready()
    assert f"store set aside in {node.data}/set-aside-1" in node.log()
    assert os.path.getsize(os.path.join(node.data, "set-aside-1", "state", "data.mdb")) == 0
