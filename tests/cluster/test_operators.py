"""What operators are told: by the command line, by answers, and by the log of each node."""

import os
import re
import signal
import socket
import time

import pytest

from harness import Command, scaled, wait_for
from harness.client import Refused, long_limit
from harness.resp import Resp

pytestmark = pytest.mark.patient


def tidegate(node, *arguments, **options):
    return Command(*arguments, endpoints=[node.endpoint], **options)


def edit_id():
    return os.urandom(16).hex()


def make(client, command, arguments):
    """Asks for an edit until it is decided, as the command line does; the last answer."""
    question = {"id": edit_id(), "author": "ada", "note": "", **arguments}
    answer = client.admin(command, question)
    until = time.monotonic() + 10
    while answer["state"] == "waiting":
        assert time.monotonic() < until, answer
        answer = client.admin("edit.state", {"id": question["id"]})
    assert answer["state"] == "done", answer
    return answer


# Whoever has created, blocked or set something at a node can rely on it there at once.
def test_what_was_changed_at_a_node_is_in_force_there_at_once(new_cluster):
    node = new_cluster(1, shards=2).start()[0]
    made = tidegate(node, "apikey", "create", "--name", "first", "-o", "json").rows[0]["key"]
    with node.client() as client:
        assert client.rules({"api_key": made}).outcome == "no_rule"
        for number in range(20):
            user = f"user-{number}"
            make(client, "block", {"what": f"user={user}", "reason": "abuse"})
            for endpoint in node.endpoints:
                with node.client() as other:
                    answer = other.rules({"user": user})
                    assert answer.outcome == "blocked", (number, endpoint, answer)
            make(client, "quota.set", {"user": f"other-{number}", "block": "unpaid"})
            assert client.rules({"user": f"other-{number}"}).outcome == "blocked", number
            make(client, "unblock", {"what": f"user={user}"})
            assert client.rules({"user": user}).outcome == "no_rule", number
    lifted = tidegate(node, "unblock", "user=nobody")
    assert lifted.code == 0 and lifted.output == \
        "nothing was blocked by that name: `tidegate blocks` lists what is\n", lifted


def names_of(node):
    return [row["name"] for row in node.admin("members")]


# Members are sorted by name, and who was removed is neither there nor in the totals.
def test_who_was_removed_vanishes_and_removing_it_again_says_so(new_cluster):
    cluster = new_cluster(3).start()
    cluster[2].kill()
    wait_for(lambda: cluster[0].members()["n3"]["state"] == "dead", 40, "n3 is known to be dead")
    assert cluster[0].status()["members"]["dead"] == 1
    owner = tidegate(cluster[0], "owner", "--key", "ada", "-o", "json").rows[0]
    assert sorted(owner["replicas"]) == ["n1", "n2", "n3"] and owner["dead"] == ["n3"], owner
    shown = tidegate(cluster[0], "owner", "--key", "ada").output
    assert re.search(r"^RULE .* REPLICAS +DEAD", shown, re.MULTILINE), shown
    removed = tidegate(cluster[0], "remove", "n3")
    assert removed.code == 0 and removed.output == "n3 is out of the ring\n", removed
    for node in cluster.nodes[:2]:
        wait_for(lambda: names_of(node) == ["n1", "n2"], 10, "it vanishes", 0.02)
        counts = node.status()["members"]
        assert (counts["alive"], counts["dead"], counts["left"]) == (2, 0, 1), counts
        everybody = tidegate(node, "members", "--all", "-o", "json").rows[0]
        assert [row["name"] for row in everybody] == ["n1", "n2", "n3"]
    again = tidegate(cluster[1], "remove", "n3")
    assert again.code == 0 and again.output == "n3 is not in the ring; in it are n1, n2\n", again
    unknown = tidegate(cluster[0], "remove", "n7")
    says = "no member is called 'n7': it is not in the ring; in it are n1, n2"
    assert unknown.code == 3 and says in unknown.error, unknown


def places_of(done):
    """Where the errors are, of a command that was given a file of rules."""
    return [line.split(": ")[0].rsplit("/", 1)[-1] for line in done.error.splitlines()]


# Whoever mends a file of rules is told of all that is wrong with it, also by a node, and before it
# is applied.
def test_all_that_is_wrong_with_rules_is_told_at_once(new_cluster, tmp_path):
    node = new_cluster(1).start()[0]
    path = tmp_path / "rules.yaml"
    path.write_text("rules:\n  - {name: a, kee: [user], limits: [{rate: 5/h}]}\n"
                    "  - {name: b, key: [user], limits: [{rate: often}]}\n"
                    "  - {key: [user], limits: [{rate: 5/h}]}\n")
    found = places_of(Command("rules", "validate", str(path)))
    assert found == ["rules.yaml:2:15", "rules.yaml:3:44", "rules.yaml:4:5"]
    for words in (["rules", "validate"], ["rules", "apply", "--yes"], ["rules", "diff"]):
        done = tidegate(node, *words, str(path))
        assert done.code == 3, done
        assert places_of(done) == found, done
    path.write_text("rules:\n" + "  - {name: a, kee: [user]}\n" * 30)
    many = Command("rules", "validate", str(path)).error.splitlines()
    assert len(many) == 21 and re.search(r"rules.yaml: and \d+ errors more$", many[-1]), many[-3:]


def lines(node, *parts):
    """How many lines of the node's log have all these in them."""
    return sum(all(part in line for part in parts) for line in node.log().splitlines())


# A second node of a name that lives already says why it is outside and ends; the first says it
# once, and serves on.
def test_two_nodes_of_one_name_are_told(new_cluster):
    cluster = new_cluster(2).start()
    twin = cluster.add()
    twin.name, twin.data = "n2", os.path.join(cluster.folder, "twin-data")
    twin.spawn()
    assert twin.wait_exit(60) == 2
    says = "another living node is called n2 too"
    assert lines(twin, "warn", says, "this one is kept out of the ring") == 1
    assert lines(twin, "error", f"--name n2: {says}") == 1
    assert lines(cluster[1], "warn", says, "that one is kept out of the ring") == 1
    assert lines(cluster[0], "is called n2 too") == 0
    assert sorted(row["name"] for row in cluster[0].admin("ring")["members"]) == ["n1", "n2"]
    wait_for(lambda: names_of(cluster[0]) == ["n1", "n2"], 10, "nobody waits for it")


def wait_line(node, *parts, within_s=20):
    wait_for(lambda: lines(node, *parts), within_s, f"{node} writes a line with {parts}", 0.02)


# The log of a cluster tells who came, who went and by whose word, what was changed, and what went
# wrong with a node.
def test_the_log_tells_what_became_of_the_cluster(new_cluster):
    cluster = new_cluster(3).start()
    first, second, third = cluster.nodes
    wait_line(first, "ring of epoch", "n3 joins; vnodes are moving")
    wait_line(first, "ring of epoch", "settled; in it are n1, n2, n3")
    # a restart in order alarms nobody
    second.stop()
    wait_line(first, "member n2 (", "stopped, restart expected")
    second.start()
    wait_line(first, "member n2 (", "is alive")
    cluster.wait_healthy()
    assert not any(lines(node, "member n2 (", "did not answer") for node in (first, third))
    assert lines(first, "member n2 (", "stopped, restart expected") == 1
    # changes leave a line at every node, without the names of those whom they are about
    assert tidegate(first, "block", "user=mallory", "--author", "ada@desk").code == 0
    quota = ("quota", "set", "mallory", "--limit", "5/h")
    assert tidegate(first, *quota, "--author", "ada@desk").code == 0
    assert tidegate(first, "apikey", "create", "--name", "ci", "--author", "ada@desk").code == 0
    for node in cluster:
        wait_line(node, "by ada@desk: a block by the attribute user is in force")
        wait_line(node, "by ada@desk: what is set for a user was changed")
        wait_line(node, "by ada@desk: the API key with id ", " was created")
        assert lines(node, "mallory") == 0
    # SIGHUP without a rules file
    first.signal(signal.SIGHUP)
    wait_line(first, "warn", "SIGHUP: there is nothing to reload: "
                             "this node was started without --rules")
    # a node that stood still says so itself
    third.signal(signal.SIGSTOP)
    time.sleep(1.5)  # what is tested is a stall of this length
    third.signal(signal.SIGCONT)
    wait_line(third, "warn", "this node stood still for ")
    cluster.wait_healthy(60)
    # who goes, and by whose word
    assert tidegate(third, "drain").code == 0
    wait_line(third, "asked by ", " to drain: it moves all it holds away")
    wait_line(third, "ring of epoch", "n3 drains, as ", " asked; vnodes are moving")
    wait_line(first, "ring of epoch", "n3 drains, as it was told; vnodes are moving")
    wait_line(first, "ring of epoch", "settled; in it are n1, n2")


# A ring without a majority, and one that has it again, leave a line, as do vnodes that nobody else
# stands behind.
def test_majorities_lost_and_won_leave_a_line(new_cluster):
    cluster = new_cluster(3).start()
    for node in cluster.nodes[1:]:
        node.kill()
    wait_line(cluster[0], "warn", "member n2 (", "is dead: it did not answer")
    wait_line(cluster[0], "warn", "the ring is frozen: of its 3 voters n", " cannot be reached")
    wait_line(cluster[0], "warn", "the configuration cannot be changed now: of its 3 voters ")
    wait_line(cluster[0], "warn", "majority lost: ",
              " vnodes are decided here without a majority of their replicas")
    for node in cluster.nodes[1:]:
        node.start()
    wait_line(cluster[0], "the ring can change again: a majority of its voters is in reach")
    wait_line(cluster[0], "the configuration can be changed again: "
                          "a majority of its voters is in reach")
    wait_line(cluster[0], "majority won back: one stands behind every vnode that is decided here")
    for says in ("the ring is frozen", "the configuration cannot be changed"):
        assert lines(cluster[0], says) == 1


def say(address, *commands):
    """What a Redis client is answered, a line each."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=scaled(5)) as connection:
        connection.sendall("".join(f"{command}\r\n" for command in commands).encode())
        stream = connection.makefile("rb")
        return [stream.readline().decode().rstrip("\r\n") for _ in commands]


# A node without a cluster answers everybody at once with what it waits for, and serves the same
# clients when it has one.
def test_a_node_that_has_not_joined_says_what_it_waits_for(new_cluster):
    cluster = new_cluster(2)
    first, second = cluster.nodes
    second.arguments += ["--seed", "nosuch.invalid:7602"]
    second.spawn()
    wait_line(second, "tidegated", "starts")
    reason = f"waiting for a cluster: seed {first.gossip} does not answer; " \
             "seed nosuch.invalid cannot be resolved"
    wait_for(lambda: tidegate(second, "status", "--timeout", "300ms").code == 2, 10,
             "it takes connections")
    for words in (["status"], ["members"], ["blocks"], ["rules", "list"]):
        done = tidegate(second, *words)
        assert (done.code, done.error) == (2, f"tidegate: {reason}\n"), done
    for words in (["--key", "ada", "--rate", "5/60s"], ["user=ada", "--explain"]):
        started = time.monotonic()
        done = tidegate(second, "check", *words)
        assert done.code == 2 and reason in done.error, done
        assert time.monotonic() - started < scaled(2), "at once, not when its time is over"
    with second.client(deadline_s=1) as client:
        for question in (lambda: client.admin("status"),
                         lambda: client.check("ada", long_limit(5))):
            try:
                question()
                raise AssertionError("it was answered")
            except Refused as refusal:
                assert reason in str(refusal)
    assert say(second.resp, "PING", "CL.THROTTLE ada 15 30 60", "INFO", "TG.CHECK user ada") == \
        [f"-UNAVAILABLE {reason}"] * 4
    wait_line(second, "warn", "not serving: " + reason)
    first.start()
    wait_line(second, "tidegated ready")
    assert say(second.resp, "PING") == ["+PONG"]
    cluster.wait_healthy()
    assert tidegate(second, "check", "--key", "ada", "--rate", "5/60s").code == 0
    assert lines(second, "not serving: ") == 1 and lines(second, "seed nosuch.invalid: ") == 2


# What blocks a request is told with whoever has said so, until when and why: beside the rules, with
# a check, over Redis.
def test_explanations_know_what_blocks(new_cluster):
    cluster = new_cluster(2).start()
    node, other = cluster.nodes
    for words in (["block", "user=mallory", "--reason", "abuse", "--for", "1h"],
                  ["block", "10.0.0.0/8", "--reason", "noise"],
                  ["block", "--key", "exports"], ["quota", "set", "bob", "--block", "unpaid"]):
        assert tidegate(node, *words, "--author", "ada@desk").code == 0
    wait_for(lambda: len(other.admin("blocks")) == 3, 10, "all know the blocks")
    wait_for(lambda: tidegate(other, "check", "user=bob").code == 1, 10, "and what is set for bob")

    def explained(*words):
        return tidegate(other, *words, "-o", "json").rows[0]["blocked"]

    told = explained("rules", "explain", "user=mallory", "api=/x")
    assert {name: told[name] for name in ("by", "kind", "what", "reason", "status", "author")} == \
        {"by": "block", "kind": "attr", "what": "user=mallory", "reason": "abuse", "status": 403,
         "author": "ada@desk"}
    assert 3500_000 < told["left_ms"] <= 3600_000 and told["until"] > told["time"] > "2"
    explanation = tidegate(other, "rules", "explain", "user=mallory", "-o", "json").rows[0]
    assert explanation["allowed"] is False
    told = explained("rules", "explain", "ip=10.1.2.3:5000")
    assert (told["kind"], told["what"], told["reason"], told["until"]) == \
        ("cidr", "10.0.0.0/8", "noise", "")
    told = explained("rules", "explain", "user=bob")
    assert (told["by"], told["what"], told["reason"], told["author"]) == \
        ("quota", "bob", "unpaid", "ada@desk")
    assert explained("rules", "explain", "user=ann") is None
    assert explained("check", "user=mallory", "--explain")["author"] == "ada@desk"
    assert explained("check", "--key", "exports", "--rate", "5/s", "--explain")["what"] == "exports"
    shown = tidegate(other, "check", "ip=10.9.9.9", "--explain").output.splitlines()[-1]
    assert shown == "  blocked: 10.0.0.0/8, by ada@desk, without an end: noise"
    assert "blocked" not in tidegate(other, "check", "user=ann", "--explain", "-o", "json").rows[0]
    with Resp(other.resp) as client:
        reply = client.ask("TG.CHECK", "user", "mallory", "MESSAGE", "STATUS")
        assert reply[5:] == ["blocked", "", "abuse", 403], reply
        assert client.ask("TG.CHECK", "user", "ann", "STATUS")[-1] in (200, 0)
