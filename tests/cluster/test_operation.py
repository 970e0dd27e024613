"""Starting, stopping, restarting, and the command-line client as an operator meets them."""

import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import threading
import time

import pytest

from harness import Cluster, Command, History, Load, Node, Stopwatch, program, scaled, wait_for
from harness.client import ALGORITHMS, DECISIONS, UNAVAILABLE, Client, encode_checks, long_limit
from harness.ports import FOLDER, is_free, take_block

DEFAULT_PORTS = (7600, 7601, 7602, 7603)
DRAIN_S = 10
FILE_MAX = 1 << 15  # bytes: room for a log, and none for a store


@pytest.fixture
def ports():
    block = take_block()
    yield block
    block.close()


@pytest.fixture
def default_ports():
    """The ports that a node has without being told, for one test process at a time."""
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    with open(os.path.join(FOLDER, "default"), "a", encoding="ascii") as lock:
        wait_for(lambda: is_locked(lock), 60, "no other test process has the default ports")
        if not all(map(is_free, DEFAULT_PORTS)):
            pytest.skip("the default ports 7600 to 7603 are taken by another program")
        yield


def is_locked(file):
    """Whether this process has the file now; the lock ends with it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@pytest.fixture
def lone(tmp_path, ports):
    """A node of its own, not started."""
    node = Node(tmp_path, "lone", ports.first)
    yield node
    node.close()


# Too few open files are named at the start; libraries would end the process without a word.
def test_too_few_open_files_are_refused_in_words(lone):
    lone.spawn(command=["prlimit", "--nofile=28:28", *lone.command()])
    assert lone.wait_exit() == 2
    assert "may open 28 files and needs at least" in lone.log() and "LimitNOFILE" in lone.log()


# Whoever reads the log may go, a pipe's reader say: the node serves on, and ends in order.
def test_a_node_outlives_the_reader_of_its_log(lone):
    script = 'exec "$@" 2> >(grep -m1 "tidegated ready")'
    lone.spawn(command=["bash", "-c", script, "bash", *lone.command()])
    lone.wait_ready()
    lone.signal(signal.SIGHUP)
    wait_for(lambda: lone.status()["healthy"], 30, "it is healthy")
    assert lone.is_running
    assert lone.stop() == 0


# Without any argument a node serves at once, and the client finds it without any either.
def test_a_daemon_without_arguments_serves_a_client_without_endpoint(tmp_path, measured, default_ports):
    node = Node(tmp_path, "plain", DEFAULT_PORTS[0])
    try:
        watch = Stopwatch()
        node.spawn(command=[program("tidegated")])
        node.wait_ready()
        measured("ready after", f"{watch.ms:.0f} ms")
        done = Command("check", "--key", "a", "--rate", "5/60s", "--repeat", "7", cwd=tmp_path)
        assert done.code == 1, done
        words = done.output.lower().split()
        assert words.count("allow") == 5 and words.count("deny") == 2, done
        done = Command("-o", "json", "check", "--key", "b", "--rate", "5/60s", "--repeat", "7")
        assert done.code == 1
        assert [row["allowed"] for row in done.rows] == [True] * 5 + [False] * 2
        assert [row["remaining"] for row in done.rows] == [4, 3, 2, 1, 0, 0, 0]
        assert (tmp_path / "tidegate-data").is_dir()
        assert node.stop() == 0
    finally:
        node.close()


# The client goes on to an endpoint that lives.
def test_a_client_given_a_dead_and_a_live_endpoint_works(trio, ports):
    dead = f"127.0.0.1:{ports.first}"
    for endpoints in ([dead, trio[1].endpoint], [trio[1].endpoint, dead]):
        done = Command("-o", "json", "check", "--key", f"k{endpoints.index(dead)}", "--rate",
                       "5/h", endpoints=endpoints)
        assert done.code == 0 and done.rows[0]["allowed"] is True, done
        done = Command("-o", "json", "members", endpoints=endpoints)
        assert done.code == 0 and len(json.loads(done.output)) == 3, done


# With nobody there it says so, in time.
def test_a_client_without_a_living_endpoint_fails_within_its_deadline(ports):
    endpoints = [f"127.0.0.1:{ports.first + at}" for at in range(2)]
    watch = Stopwatch()
    done = Command("--timeout", "700ms", "check", "--key", "a", "--rate", "5/h",
                   endpoints=endpoints)
    assert done.code == 2 and len(done.error) > 20 and str(ports.first) in done.error, done
    assert watch.own_ms < scaled(3) * 1000


# What the commands for people tell about a cluster.
@pytest.mark.smoke
def test_the_commands_show_the_cluster(trio):
    done = Command("status", "--wait", "healthy", "--members", "3", endpoints=trio.endpoints)
    assert done.code == 0, done
    members = Command("-o", "json", "members", endpoints=trio.endpoints)
    rows = json.loads(members.output)
    assert sorted((row["name"], row["state"]) for row in rows) == \
        [("n1", "alive"), ("n2", "alive"), ("n3", "alive")]
    assert sum(row["vnodes"] for row in rows) == 4096
    ring = json.loads(Command("-o", "json", "ring", endpoints=trio.endpoints).output)
    assert ring["stable"] is True and len(ring["members"]) == 3
    owner = Command("-o", "json", "owner", "--key", "a", endpoints=trio.endpoints)
    assert {owner.rows[0]["owner"], owner.rows[0]["decider"]} <= {"n1", "n2", "n3"}
    assert sorted(owner.rows[0]["replicas"]) == ["n1", "n2", "n3"]
    for command in (["status"], ["members"], ["ring"], ["owner", "--key", "a"]):
        table = Command(*command, endpoints=trio.endpoints)
        assert table.code == 0 and "n1" in table.output and "\x1b" not in table.output, table


# A node restarted in order keeps its counts, alone as it is, and stops with 0 in time.
@pytest.mark.smoke
def test_an_orderly_restart_of_a_single_node_keeps_every_count(lone, measured):
    limits = {f"{algorithm}-{number}": long_limit(100, algorithm)
              for algorithm in ALGORITHMS for number in range(5)}
    lone.start()
    with lone.client() as client:
        for key, limit in limits.items():
            assert client.check(key, limit, cost=60).allowed
    watch = Stopwatch()
    assert lone.stop() == 0
    measured("stopped after", f"{watch.ms:.0f} ms")
    assert watch.own_ms < scaled(DRAIN_S) * 1000
    lone.start()
    with lone.client() as client:
        assert {key: client.used(key, limits[key]) for key in limits} == dict.fromkeys(limits, 60)


# The same under load: whatever was answered before the end is there after the restart.
def test_an_orderly_restart_under_load_keeps_what_was_answered(lone, measured):
    keys = [f"busy-{number}" for number in range(6)]
    limit = long_limit(10**9, "fixed_window")
    for turn in range(3):
        lone.start()
        with Load([lone.endpoint], keys, limit, threads=2, batch=16, window=8,
                  last_s=0.3) as load:
            wait_for(lambda load=load: load.count() > 20000, 60, "20,000 checks are answered")
            assert lone.stop() == 0
        lone.start()
        with lone.client() as client:
            used = {key: client.used(key, limit) for key in keys}
            answered = {key: load.allowed(key) for key in keys}
            missing = {key: answered[key] - used[key] for key in keys if used[key] < answered[key]}
            for key in keys:
                assert client.ask([key], limit, "reset")[0].allowed
        measured(f"restart {turn + 1}: answered", f"{load.count()}, forgotten {missing or 0}")
        assert not missing
        assert lone.stop() == 0


# What it has read and another decides is answered before the end, here by the one that takes over for a third
# that fell silent. Only then is the client told that no more comes.
def test_a_node_that_stops_answers_what_another_decides(new_cluster, measured):
    cluster = new_cluster(3).start()
    stopping, silent = cluster[0], cluster[2]
    limit = long_limit(100)
    keys = cluster.keys_decided_by(silent.name, 20)
    with stopping.client(deadline_s=5) as client:
        client.check(keys[0], limit)
        silent.signal(signal.SIGSTOP)
        for number, key in enumerate(keys):
            assert client.send_frame(encode_checks(client.session, 1000 + number, 0, int(scaled(5) * 1000),
                                                   limit.template(), [key]))
        early = client.receive(None, 0.03)  # it has read them by then, and nobody decides as soon
        watch = Stopwatch()
        stopping.signal(signal.SIGTERM)
        answers = [early or client.receive(None, scaled(5)), *(client.receive(None, scaled(5)) for _ in keys[1:])]
        measured("answered, after the node was told to stop", f"{watch.ms:.0f} ms")
    silent.signal(signal.SIGCONT)
    assert None not in answers
    assert sorted(answer[3] for answer in answers) == [1000 + number for number in range(len(keys))]
    assert all(answer[1] == DECISIONS or answer[4] == UNAVAILABLE for answer in answers)
    assert stopping.wait_exit() == 0


# Node after node is restarted while clients check on: nothing is lost, all exit with 0.
def test_a_rolling_restart_under_load_loses_no_count(new_cluster, measured):
    cluster = new_cluster(3).start()
    keys = [key for node in cluster for key in cluster.keys_decided_by(node.name, 2)]
    limit = long_limit(20_000, "fixed_window")  # a bucket would refill while this goes on
    with Load(cluster.endpoints, keys, limit, threads=3, batch=4, window=1,
              pace_s=0.002) as load:
        for node in cluster:
            before = load.count()
            wait_for(lambda before=before: load.count() > before + 500, 30, "the load runs")
            start = time.monotonic()
            watch = Stopwatch()
            assert node.stop() == 0
            stopped_ms = watch.own_ms
            node.start()
            cluster.wait_healthy()
            pause = load.longest_pause_ms(start, time.monotonic())
            measured(f"{node} restarted", f"stop {stopped_ms:.0f} ms, healthy again after "
                                          f"{watch.ms:.0f} ms, longest pause {pause:.0f} ms")
            assert stopped_ms < scaled(DRAIN_S) * 1000
    allowed, asked = {key: load.allowed(key) for key in keys}, History(load).keys
    with cluster.client() as client:
        for key in keys:
            used = client.used(key, limit)
            assert used >= allowed[key], f"{key}: {allowed[key]} were allowed, {used} are counted"
            rest = client.check(key, limit, cost=limit.count, at_most=True).granted
            assert allowed[key] + rest <= limit.count
            measured(f"{key}", f"allowed {allowed[key]}, counted {used}")
            # A batch whose answer was lost may be charged twice: at most one a restart and client, and
            # what clients asked again for because the answer did not come.
            assert used - allowed[key] <= 3 * 3 * 4 + asked[key].repeated + asked[key].uncertain
    assert not load.refusals


# All nodes stopped at once and started at once: nothing is lost either.
def test_all_nodes_restarted_at_once_keep_every_count(new_cluster, measured):
    cluster = new_cluster(3).start()
    limit = long_limit(10)
    keys = [f"all-{number}" for number in range(300)]
    with cluster.client() as client:
        assert all(answer.allowed for answer in client.ask(keys, limit, cost=6))
        watch = Stopwatch()
        assert set(cluster.stop_all().values()) == {0}
        measured("all nodes stopped after", f"{watch.ms:.0f} ms")
        assert watch.own_ms < scaled(DRAIN_S) * 1000
    cluster.start()
    with cluster.client() as client:
        assert set(client.all_used(keys, limit)) == {6}


# A restarted node is the same node: same id, higher incarnation, its vnodes its own.
def test_a_restarted_node_keeps_its_identity(new_cluster):
    cluster = new_cluster(2).start()
    before = cluster[0].members()["n2"]
    assert cluster[1].stop() == 0
    cluster[1].start()
    cluster.wait_healthy()
    wait_for(lambda: cluster[0].members()["n2"]["incarnation"] > before["incarnation"], 20, "it is told of the restart")
    after = cluster[0].members()["n2"]
    assert after["id"] == before["id"] and after["vnodes"] == before["vnodes"]


# An ephemeral node writes nothing, says so, and serves.
def test_an_ephemeral_node_leaves_nothing_on_the_disk(tmp_path, ports):
    node = Node(tmp_path, "gone", ports.first, "--ephemeral")
    try:
        node.start()
        limit = long_limit(5)
        with node.client() as client:
            assert [client.check("a", limit).allowed for _ in range(7)] == [True] * 5 + [False] * 2
        wait_for(lambda: "ephemeral" in node.log(), 20, "it says so")
        assert node.status()["storage"]["kind"] == "ephemeral"
        assert node.stop() == 0
        assert os.listdir(tmp_path) == ["gone.log"]
    finally:
        node.close()


# A damaged store is refused with 3; --rebuild sets it aside and the replicas give all of it back.
def test_a_damaged_store_is_refused_and_rebuilt_from_replicas(new_cluster):
    cluster = new_cluster(3).start()
    damaged = cluster[1]
    limit = long_limit(10)
    keys = cluster.keys_decided_by(damaged.name, 20)
    with cluster.client() as client:
        assert all(answer.allowed for answer in client.ask(keys, limit, cost=6))
    assert damaged.stop() == 0
    with open(os.path.join(damaged.data, "state", "data.mdb"), "r+b") as file:
        file.write(os.urandom(65536))
    damaged.spawn()
    assert damaged.wait_exit(30) == 3, damaged.log()
    assert "--rebuild" in damaged.log()
    damaged.start("--rebuild")
    wait_for(lambda: "set aside" in damaged.log(), 20, "it says so")
    cluster.wait_healthy()
    cluster.wait_replicated()
    with damaged.client() as client:
        assert set(client.all_used(keys, limit)) == {6}
    for node in (cluster[0], cluster[2]):
        node.kill()
    # Alone, it knows what it was given back.
    with damaged.client(deadline_s=5, attempt_s=2) as client:
        assert set(client.all_used(keys, limit)) == {6}


# A node whose disk is gone starts as a new one of the same name and takes the dead one's place.
@pytest.mark.patient
def test_a_node_that_lost_its_disk_takes_its_old_place(new_cluster, measured):
    cluster = new_cluster(3).start()
    lost = cluster[1]
    limit = long_limit(10)
    keys = cluster.keys_decided_by(lost.name, 20)
    with cluster.client() as client:
        assert all(answer.allowed for answer in client.ask(keys, limit, cost=6))
    assert lost.stop() == 0
    shutil.rmtree(lost.data)
    watch = Stopwatch()
    lost.start()
    cluster.wait_healthy(30)
    measured("back in the ring with an empty disk after", f"{watch.ms:.0f} ms")

    def owners():
        return sorted((member["name"], member["state"]) for member in cluster[0].admin("members") if member["vnodes"])
    wait_for(lambda: owners() == [("n1", "alive"), ("n2", "alive"), ("n3", "alive")], 20, "three own vnodes")
    with lost.client() as client:
        assert set(client.all_used(keys, limit)) == {6}
    assert {lost.owner(key)["decider"] for key in keys} <= {"n1", "n2", "n3"}


# --check-config says whether a configuration would do, and touches nothing.
def test_check_config_tells_good_from_bad_and_touches_nothing(tmp_path):
    (tmp_path / "good.yaml").write_text("base_port: 7000\nname: x\nrules: rules.yaml\n")
    (tmp_path / "rules.yaml").write_text("rules:\n  - {name: a, key: [ip], limits: [{rate: 5/h}]}\n")
    before = sorted(os.listdir(tmp_path))
    node = Node(tmp_path, "checked", 1)
    try:
        for arguments, code, word in ((["--config", "good.yaml"], 0, "ok"), ([], 0, "ok"),
                                      (["--config", "good.yaml", "--weight", "0"], 2, "--weight"),
                                      (["--config", "rules.yaml"], 2, "rules.yaml:2:3: ")):
            node.spawn(command=[program("tidegated"), *arguments, "--check-config"])
            assert node.wait_exit(30) == code, node.log()
            assert word in node.log()
    finally:
        node.close()
    assert sorted(set(os.listdir(tmp_path)) - {"checked.log"}) == before


# systemd is told when the node serves and when it stops.
def test_the_service_manager_is_told_when_the_node_is_ready(tmp_path, ports):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(scaled(60))
        node = Node(tmp_path, "told", ports.first, environment={"NOTIFY_SOCKET": path})
        try:
            node.spawn()
            assert b"READY=1" in manager.recv(1024)
            with node.client() as client:
                assert client.check("a", long_limit(5)).allowed
            node.signal(signal.SIGTERM)
            assert b"STOPPING=1" in manager.recv(1024)
            assert node.wait_exit() == 0
        finally:
            node.close()


# Seeds that are not there yet: the node waits, says so, and joins when they come.
@pytest.mark.patient
def test_a_node_waits_for_its_seeds_and_joins_when_they_come(new_cluster):
    cluster = new_cluster(2)
    cluster[1].spawn()
    wait_for(lambda: "trying on" in cluster[1].log(), 30, "it says that it waits")
    assert cluster[1].is_running
    cluster[0].start()
    cluster[1].wait_ready()
    cluster.wait_healthy()


# Several nodes that may all create a cluster and know each other end in one.
def test_nodes_that_bootstrap_together_end_in_one_cluster(tmp_path):
    with Cluster(tmp_path, 3) as cluster:
        seeds = [argument for node in cluster for argument in ("--seed", node.gossip)]
        for node in cluster:
            node.arguments = ["--bootstrap", *seeds]
        cluster.start()
        assert len({node.status()["cluster_id"] for node in cluster}) == 1


# A second SIGTERM ends the node at once, though there is something left that it cannot write.
def test_twice_asked_to_stop_it_stops_at_once(lone):
    lone.spawn(command=[word.replace(f"{DRAIN_S}s", "600s") for word in lone.command()])
    lone.wait_ready()
    resource.prlimit(lone.pid, resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX))
    with lone.client() as client:
        assert all(answer.allowed for answer in client.ask([f"key-{number}" for number in range(2000)], long_limit(5)))
    wait_for(lambda: not lone.status()["storage"]["ok"], 30, "writing fails")
    lone.signal(signal.SIGTERM)
    wait_for(lambda: "stopping: " in lone.log(), 30, "it has been asked")
    assert lone.is_running
    lone.signal(signal.SIGTERM)
    assert lone.wait_exit() == 0
    assert lone.log().splitlines()[-1].endswith("stopped")


# No signal ends a node that is ending already in another way than in order.
@pytest.mark.smoke
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_signal_kills_a_node_that_is_ending(lone, number):
    lone.start()
    lone.signal(signal.SIGTERM)

    def has_gone():
        lone.signal(number)
        return not lone.is_running
    wait_for(has_gone, 60, "it has ended", poll_s=0)
    assert lone.wait_exit() == 0
    assert "stopped" in lone.log()


def reader_of(fifo):
    """What writes to who reads there, or None as long as nobody does."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


# Who asks it to stop before it serves is not told that it does, and gets an orderly end.
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_asked_to_stop_while_it_starts_ends_in_order(lone, number):
    for _ in range(2):  # without a store, then with one
        rules = os.path.join(lone.folder, "rules.yaml")
        os.mkfifo(rules)  # its start lasts until these can be read
        lone.spawn("--rules", rules)
        pipe = wait_for(lambda rules=rules: reader_of(rules), 60, "it reads its rules")
        lone.signal(number)
        os.write(pipe, b"rules:\n  - {name: a, key: [ip], limits: [{rate: 5/h}]}\n")
        os.close(pipe)
        os.remove(rules)
        assert lone.wait_exit(60) == 0, lone.log()
        assert "stopped" in lone.log() and not lone.is_ready
        assert lone.start().stop() == 0


# The same for one that looks for its cluster still.
@pytest.mark.patient
def test_a_node_asked_to_stop_while_it_waits_for_its_seeds_ends_in_order(tmp_path, ports):
    node = Node(tmp_path, "early", ports.first, "--seed", f"127.0.0.1:{ports.first + 10}")
    try:
        node.spawn()
        wait_for(lambda: "trying on" in node.log(), 60, "it says that it waits")
        node.signal(signal.SIGTERM)
        assert node.wait_exit(60) == 0, node.log()
        assert not node.is_ready
    finally:
        node.close()


# Signals and questions from many sides at once do no harm.
def test_many_sessions_come_and_go(single):
    errors = []

    def visit(number):
        try:
            for turn in range(20):
                with Client(single[0].endpoint) as client:
                    assert client.hello()[1] == 2
                    assert client.check(f"visit-{number}-{turn}", long_limit(5)).allowed
        except Exception as error:  # told below
            errors.append(repr(error))

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
