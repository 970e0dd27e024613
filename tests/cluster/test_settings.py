"""The configuration store: rules and blocks that operators change while the cluster serves."""

import os
import random
import signal
import threading
import time

import pytest

from harness import Cluster, Command, promised, scaled, wait_for, within_one
from harness.waiting import halts

RULES = """\
unmatched: allow
tiers:
  gold: {{limits: [{{rate: 3/day, algorithm: fixed_window}}]}}
rules:
  # who pays
  - name: pay
    match: {{api: /pay}}
    key: [user]
    limits: [{{rate: {pay}/24h}}]
  - name: look
    match: {{api: /look}}
    key: [user]
    limits: [{{rate: {look}/24h}}]
"""


def text(pay=5, look=7):
    return RULES.format(pay=pay, look=look)


def fresh():
    return f"{random.getrandbits(48):x}"


def tidegate(node, *arguments):
    return Command(*arguments, endpoints=[node.endpoint])


def version(node):
    return node.status()["settings"]["version"]


def in_force(cluster, number):
    return all(node.status()["rules"]["version"] == number for node in cluster.live)


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """Three nodes whose first rules come from a file."""
    folder = tmp_path_factory.mktemp("settled")
    (folder / "rules.yaml").write_text(text())
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        cluster.start()
        wait_for(lambda: all(node.status()["rules"]["version"] > 0 for node in cluster), 30, "the file is taken")
        cluster.folder = folder
        yield cluster


def newest(cluster):
    return cluster[0].admin("rules.history")[0]["version"]


# Applied at one node the rules are in force on all within two seconds, and each of the decisions meanwhile is by
# the old rules or by the new ones, never by neither.
@pytest.mark.smoke
def test_rules_applied_at_one_node_under_load_are_in_force_on_all(settled, tmp_path, measured):
    (tmp_path / "new.yaml").write_text(text(pay=9))
    limits, stop = {5: 0, 9: 0}, threading.Event()
    strange = []

    def ask(number):
        with settled.client(number) as client:
            while not stop.is_set():
                answer = client.rules({"api": "/pay", "user": fresh()})
                if answer.rule != "pay" or answer.limit not in limits or not answer.allowed:
                    strange.append(answer)
                else:
                    limits[answer.limit] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: limits[5] > 200, 30, "the old rules are asked")
        started = time.monotonic()
        done = tidegate(settled[1], "rules", "apply", str(tmp_path / "new.yaml"), "--yes", "--note", "more",
                        "--author", "ada@desk", "-o", "json")
        assert done.code == 0, done
        number = done.rows[0]["version"]
        promised(lambda: in_force(settled, number), 2, "all nodes have the new rules", 0.02)
        measured("rules in force on all nodes, seconds after the command began", round(time.monotonic() - started, 2))
        counted = limits[9]
        wait_for(lambda: limits[9] > counted + 100, 30, "the new rules are asked")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not strange, strange[:3]
    wait_for(lambda: len({node.status()["settings"]["digest"] for node in settled}) == 1, 20, "all have the same")
    top = tidegate(settled[2], "rules", "history", "-o", "json").rows[0][0]
    assert (top["author"], top["note"], top["in_force"], top["version"]) == ("ada@desk", "more", True, number)


# Of two who change the same version at the same time one wins, and the other is told who was first.
def test_of_two_concurrent_edits_one_wins_and_the_other_is_told(settled):
    base = settled[0].admin("rules.show")["base"]
    outcomes = {}

    def apply(number):
        ident = f"{random.getrandbits(128):032x}"
        argument = {"id": ident, "author": f"person{number}", "text": text(look=20 + number), "base": base}
        answer = settled[number].admin("rules.apply", argument)

        def ended():
            return settled[number].admin("edit.state", {"id": ident})["state"] != "waiting"
        if answer["state"] == "waiting":
            wait_for(ended, 30, "the edit ends", 0.02)
        outcomes[number] = settled[number].admin("edit.state", {"id": ident})

    threads = [threading.Thread(target=apply, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome["state"] for outcome in outcomes.values()) == ["conflict", "done"]
    winner = next(number for number, outcome in outcomes.items() if outcome["state"] == "done")
    loser = outcomes[1 - winner]
    assert f"by person{winner}" in loser["message"], loser
    promised(lambda: in_force(settled, outcomes[winner]["version"]), 2, "all have the winner's")
    with settled.client(2) as client:
        wait_for(lambda: client.rules({"api": "/look", "user": fresh()}).limit == 20 + winner, 20, "they are asked")


# The command line shows the difference, asks, and refuses where there is nobody to ask; bad rules are refused
# whole, with their place, and nothing is changed.
def test_the_command_line_shows_asks_and_refuses(settled, tmp_path):
    before = newest(settled)
    path = tmp_path / "other.yaml"
    path.write_text(text(pay=11, look=77))
    shown = tidegate(settled[0], "rules", "diff", str(path))
    assert shown.code == 0 and "+    limits: [{rate: 77/24h}]" in shown.output
    asked = tidegate(settled[0], "rules", "apply", str(path))
    assert asked.code == 64 and "--yes" in asked.error
    dry = tidegate(settled[0], "rules", "apply", str(path), "--dry-run", "-o", "json")
    assert dry.code == 0 and set(dry.rows[0]["changed"]) <= {"pay", "look"} and not dry.rows[0]["added"]
    path.write_text(text().replace("key: [user]", "key: user", 1))
    bad = tidegate(settled[0], "rules", "apply", str(path), "--yes")
    assert bad.code == 3 and bad.error.startswith(f"{path}:8:"), bad
    assert newest(settled) == before


# A rule is cut out of the document and the rest stays as it is written; a version of before comes back by its
# number, as a new one.
def test_a_rule_is_deleted_and_an_older_version_comes_back(settled):
    before = tidegate(settled[0], "rules", "show").output
    assert "# who pays" in before
    number = newest(settled)
    gone = tidegate(settled[1], "rules", "delete", "look", "--yes", "-o", "json")
    assert gone.code == 0, gone
    after = tidegate(settled[1], "rules", "show").output
    assert "# who pays" in after and "look" not in after and "name: pay" in after
    promised(lambda: in_force(settled, gone.rows[0]["version"]), 2, "all have it")
    assert {rule["name"] for rule in settled[2].admin("rules.list")} == {"pay", "tier gold"}
    assert tidegate(settled[0], "rules", "show", "look").code == 3
    back = tidegate(settled[2], "rules", "rollback", str(number), "--yes", "-o", "json")
    assert back.code == 0 and back.rows[0]["version"] > gone.rows[0]["version"], back
    assert tidegate(settled[0], "rules", "show", "--of-version", str(number)).output == before
    promised(lambda: tidegate(settled[0], "rules", "show").output == before, 2, "it is as it was")
    promised(lambda: in_force(settled, back.rows[0]["version"]), 2, "all have it")


# A block denies on every node within two seconds, with its reason, and lifts itself at its end.
@pytest.mark.patient
def test_a_block_is_on_every_node_and_lifts_itself(settled):
    user, key = fresh(), fresh()
    assert tidegate(settled[1], "block", "203.0.113.0/24").code == 0
    assert tidegate(settled[1], "block", "--key", key).code == 0

    clients = [node.client() for node in settled]
    done = tidegate(settled[0], "block", f"user={user}", "--reason", "too many tries")
    assert done.code == 0, done

    def asked(**options):
        return [client.rules({"api": "/pay", "user": user}, **options) for client in clients]

    def blocked(answers):
        return all((answer.outcome, answer.status, answer.message) == ("blocked", 403, "too many tries")
                   for answer in answers)
    # Who waits only looks: a node that has not heard of the block yet would charge the limit.
    promised(lambda: blocked(asked(operation="peek")), 2, "the user is blocked by every node", 0.02)
    assert blocked(asked())

    def others():
        return all(client.rules({"ip": "203.0.113.9"}).outcome == "blocked" and
                   client.rules({"ip": "::ffff:203.0.113.9"}).outcome == "blocked" for client in clients)
    promised(others, 2, "the addresses are blocked by every node", 0.02)
    assert clients[0].rules({"ip": "203.0.114.9"}).outcome == "no_rule"
    assert Command("check", "--key", key, "--rate", "5/s", endpoints=[settled[2].endpoint]).code == 1
    listed = {row["what"] for row in tidegate(settled[2], "blocks", "-o", "json").rows[0]}
    assert {"203.0.113.0/24", key} <= listed
    done = tidegate(settled[1], "block", f"user={user}", "--for", "1s", "--reason", "for a moment")
    assert done.code == 0, done
    wait_for(lambda: all(answer.allowed for answer in asked(operation="peek")), 30, "the block lifts itself", 0.05)
    assert all(answer.allowed for answer in asked())
    assert tidegate(settled[2], "unblock", "203.0.113.0/24").code == 0
    assert tidegate(settled[2], "unblock", "--key", key).code == 0
    promised(lambda: all(client.rules({"ip": "203.0.113.9"}).outcome == "no_rule" for client in clients), 2,
             "what was lifted is lifted on every node")
    for client in clients:
        client.close()
    bad = tidegate(settled[0], "block", "no-address")
    assert bad.code == 3 and "expected like user=ada" in bad.error
    wide = tidegate(settled[0], "block", "10.0.0.1/8")
    assert wide.code == 3 and "found 10.0.0.1/8, which sets bits behind its prefix; expected 10.0.0.0/8" in wide.error
    endless = tidegate(settled[0], "block", f"user={user}", "--for", "0s")
    assert endless.code == 3 and "is 0; expected more than 0" in endless.error
    gone = tidegate(settled[0], "block", f"user={user}", "--until", "2027-02-30T00:00:00Z")
    assert gone.code == 3 and "there is no such day" in gone.error


def create_key(node, *arguments):
    done = tidegate(node, "apikey", "create", *arguments, "-o", "json")
    assert done.code == 0, done
    return done.rows[0]


def message(answer):
    """Why a key is refused; None if it is not."""
    assert (answer.outcome, answer.status) == ("blocked", 401) or answer.outcome != "blocked", answer
    return answer.message if answer.outcome == "blocked" else None


def all_say(cluster, key, why):
    """Whether every node refuses the key so; None: whether it does not."""
    for node in cluster.live:
        with node.client() as client:
            if message(client.rules({"api": "/pay", "user": "nobody", "api_key": key})) != why:
                return False
    return True


def holds(cluster, text):
    """The files of the cluster, data and logs, in which the text is."""
    found = []
    for folder, _, names in os.walk(cluster.folder):
        found += [name for name in names
                  if text.encode() in open(os.path.join(folder, name), "rb").read()]
    return found


# Until a key is issued `api_key` is an attribute like any other. Then one is shown once, counts for its owner,
# and is refused on every node within two seconds of being revoked at one of them, or when its time is over; the
# key itself is in no file, though its id is.
def test_a_revoked_key_is_refused_on_every_node(settled):
    owner = fresh()
    with settled.client(1) as client:
        assert client.rules({"api": "/pay", "user": fresh(), "api_key": "free"}).allowed
    made = create_key(settled[0], "--name", "ci", "--owner", owner, "--limit", "1000/day")
    short = create_key(settled[1], "--name", "short", "--for", "2s")
    promised(lambda: all_say(settled, made["key"], None) and all_say(settled, "free", "API key unknown"), 2,
             "the key is known to every node", 0.02)
    used = []
    for node in settled:
        with node.client() as client:
            used.append(client.rules({"api": "/look", "user": "mallory", "api_key": made["key"]}).used)
    assert used == [1, 2, 3], used
    with settled.client(1) as client:
        answer = client.rules({"user": "nobody", "api_key": made["key"]})
        assert (answer.rule, answer.limit) == ("api key", 1000) and answer.used > 3
    with settled.client(2) as client:
        assert client.rules({"api": "/look", "user": owner}).used == 4
    shown = tidegate(settled[2], "apikey", "show", "ci", "-o", "json")
    assert (shown.rows[0]["id"], shown.rows[0]["limits"]) == (made["id"], ["1000/d"]) and made["key"] not in shown.output
    done = tidegate(settled[1], "apikey", "revoke", made["key"], "--author", "eve@desk")
    assert done.code == 0, done
    promised(lambda: all_say(settled, made["key"], "API key revoked"), 2, "every node refuses the key", 0.02)
    wait_for(lambda: all_say(settled, short["key"], "API key expired"), 30, "the other key ends by itself", 0.05)
    listed = {row["name"]: row for row in tidegate(settled[2], "apikey", "list", "-o", "json").rows[0]}
    assert (listed["ci"]["state"], listed["ci"]["revoked_by"], listed["short"]["state"]) == (
        "revoked", "eve@desk", "expired")


    def counted():
        row = {row["name"]: row for row in tidegate(settled[2], "apikey", "list", "-o", "json").rows[0]}["ci"]
        return row["total"] >= 2 and row["last_used_ms"] > row["created_ms"]
    wait_for(counted, 20, "what was asked with it is counted", 0.05)
    assert holds(settled, made["id"]), "the id is kept, so the search finds what is there"
    secret = made["key"].rpartition("_")[2]
    assert not holds(settled, secret) and not holds(settled, short["key"].rpartition("_")[2])


def asked(cluster, user):
    rows = [node.admin("quota.show", {"user": user}) for node in cluster]
    return [(row["requests_today"], row["exceeded_month"]) for row in rows]


# What is set for a user at one node is in force on all within two seconds, keeps what he has consumed, and is what a node
# has that was away, and that was started again.
def test_a_users_quota_is_in_force_on_all_and_keeps_what_was_consumed(settled):
    user = fresh()
    within_one(86400, 60)  # totals are of days, and of months
    clients = [node.client(attempt_s=5, deadline_s=20) for node in settled]  # who is asked twice counts two

    def told(number, **options):
        return clients[number].rules({"user": user}, **options)

    def everywhere(**wanted):
        return all(all(getattr(told(number, cost=0), name) == value for name, value in wanted.items())
                   for number in range(len(clients)))

    assert tidegate(settled[0], "quota", "show", user).code == 3
    assert tidegate(settled[0], "quota", "set", user, "--tier", "none-of-these").code == 3
    done = tidegate(settled[0], "quota", "set", user, "--tier", "gold", "--notes", "since May")
    assert done.code == 0, done
    promised(lambda: everywhere(rule="tier gold", limit=3), 2, "the tier is known to every node", 0.02)
    assert [told(number).allowed for number in (0, 1, 2, 0)] == [True, True, True, False]
    assert tidegate(settled[1], "quota", "set", user, "--limit", "5/day").code == 0
    wait_for(lambda: asked(settled, user) == [(2, 1), (1, 0), (1, 0)], 20, "each node has counted what it was asked", 0.05)
    promised(lambda: everywhere(limit=5, used=3), 2, "the limit is known to every node, the count is kept", 0.02)
    assert told(2).allowed and told(1).remaining == 0 and not told(0).allowed
    shown = tidegate(settled[2], "quota", "show", user, "-o", "json").rows[0]
    assert (shown["tier"], shown["limits"], shown["notes"]) == ("gold", ["5/d"], "since May")
    assert [(row["rule"], row["window"], row["limit"], row["used"], row["remaining"]) for row in shown["state"]] == \
        [("tier gold", "5/d", 5, 5, 0)]

    def counted():
        return tidegate(settled[1], "quota", "show", user, "-o", "json").rows[0]
    wait_for(lambda: (lambda row: (row["requests_today"], row["exceeded_total"], row["not_counted"]) == (7, 2, []) and
                      row["last_seen_ms"] > 0)(counted()), 20, "all nodes' totals are added up", 0.1)
    assert user in {row["user"] for row in tidegate(settled[1], "quota", "list", "-o", "json").rows[0]}
    assert tidegate(settled[0], "quota", "reset", user).code == 0 and told(0, cost=0).used == 0

    settled[2].stop()  # in order: what it has counted is there again
    assert tidegate(settled[0], "quota", "set", user, "--block", "unpaid").code == 0
    settled[2].start()
    clients[2] = settled[2].client(attempt_s=5, deadline_s=20)
    wait_for(lambda: everywhere(outcome="blocked", status=403, message="unpaid"), 30, "blocked on every node", 0.05)
    wait_for(lambda: asked(settled, user)[2] == (2, 0), 20, "what it had counted is there again")
    assert tidegate(settled[1], "quota", "set", user, "--unblock").code == 0
    promised(lambda: everywhere(outcome="allow", limit=5), 2, "no node blocks him", 0.02)
    assert tidegate(settled[1], "quota", "delete", user).code == 0
    promised(lambda: everywhere(outcome="no_rule"), 2, "he is as all others", 0.02)
    for client in clients:
        client.close()
    settled.wait_healthy()


# A node that was away takes what it missed; one alone serves with what it has, and refuses edits by name.
@pytest.mark.patient
def test_a_node_that_was_away_catches_up_and_one_alone_refuses(settled, tmp_path):
    path = tmp_path / "third.yaml"
    path.write_text(text(pay=30))
    leaked = create_key(settled[0], "--name", "leaked")["key"]
    settled[2].kill()
    assert tidegate(settled[0], "rules", "apply", str(path), "--yes").code == 0
    assert tidegate(settled[1], "apikey", "revoke", "leaked").code == 0
    number = newest(settled)
    settled[2].start()
    wait_for(lambda: settled[2].status()["rules"]["version"] == number, 30, "the node has what it missed", 0.05)
    promised(lambda: all_say(settled, leaked, "API key revoked"), 2, "the node knows that the key was revoked", 0.02)
    settled[0].kill()
    settled[1].kill()
    path.write_text(text(pay=31))
    refused = tidegate(settled[2], "rules", "apply", str(path), "--yes")
    assert refused.code == 2 and refused.error.startswith("tidegate: "), refused
    with settled[2].client() as client:
        assert client.rules({"api": "/elsewhere"}).outcome == "no_rule"
    settled[0].start()
    settled[1].start()
    settled.wait_healthy()


# Killed all at once, every node comes back with what was acknowledged, though the rules file says otherwise; it says
# so, and SIGHUP applies the file.
def test_a_kill_of_all_keeps_it_and_sighup_applies_the_file(settled, tmp_path):
    path = tmp_path / "kept.yaml"
    path.write_text(text(pay=40))
    made = create_key(settled[0], "--name", "kept")["key"]
    kept = tidegate(settled[0], "rules", "apply", str(path), "--yes", "-o", "json")
    assert kept.code == 0, kept
    for node in settled:
        node.kill()
    for node in settled:
        node.start()
    settled.wait_healthy()
    wait_for(lambda: in_force(settled, kept.rows[0]["version"]), 30, "all have what was acknowledged")
    wait_for(lambda: all_say(settled, made, None) and all_say(settled, "free", "API key unknown"), 20,
             "the keys are kept")
    with settled.client(1) as client:
        assert client.rules({"api": "/pay", "user": fresh()}).limit == 40
    wait_for(lambda: "not those of" in settled[0].log(), 30, "it says that the file is not in force")
    settled[0].signal(signal.SIGHUP)
    wait_for(lambda: all(node.admin("rules.show")["author"] == "file" for node in settled), 30, "the file is applied")
    assert settled[1].admin("rules.show")["text"] == (settled.folder / "rules.yaml").read_text()


# A pool is set in the document, of which all else stays as it is written; what is not given stays, too.
def test_a_pool_is_set_in_the_document(settled, tmp_path):
    def pools(node):
        return {pool["name"]: (pool["rate"], pool["load_max"], pool["reserve_percent"]) for pool in node.admin("pools.list")}

    path = tmp_path / "pooled.yaml"
    path.write_text(text(pay=45))
    done = tidegate(settled[0], "rules", "apply", str(path), "--yes", "-o", "json")
    assert done.code == 0, done
    promised(lambda: in_force(settled, done.rows[0]["version"]), 2, "all have the document")
    before = tidegate(settled[0], "rules", "show").output
    missing = tidegate(settled[0], "pools", "set", "spare", "--reserve", "5%", "--yes")
    assert missing.code == 3 and "expected --rate for a new one" in missing.error, missing
    dry = tidegate(settled[1], "pools", "set", "spare", "--rate", "100/s", "--dry-run")
    assert dry.code == 0 and "+  spare: {rate: 100/s}" in dry.output, dry
    assert tidegate(settled[0], "rules", "show").output == before
    assert tidegate(settled[1], "pools", "set", "spare", "--rate", "100/s", "--reserve", "5%", "--yes").code == 0
    promised(lambda: all(pools(node).get("spare") == ("100/s", 1.0, 5) for node in settled), 2, "all know the pool")
    done = tidegate(settled[2], "pools", "set", "spare", "--load-max", "0.8", "--yes", "-o", "json")
    assert done.code == 0, done
    promised(lambda: all(pools(node).get("spare") == ("100/s", 0.8, 5) for node in settled), 2, "all know the change")
    wait_for(lambda: in_force(settled, done.rows[0]["version"]), 20, "all have the document")
    after = tidegate(settled[0], "rules", "show").output
    assert after == "pools:\n  spare: {rate: 100/s, load_max: 0.8, reserve: 5%}\n" + before
    assert tidegate(settled[0], "rules", "history", "-o", "json").rows[0][0]["note"] == "pool spare"


MANY = 10_000
HALT_S = 0.1
ATTEMPTS = 4


def many_rules(pay, count=MANY):
    """As people write them, a line for each thing: 10,000 are 3.3 MB, more than a message holds."""
    shuffled = random.Random(pay)
    rules = "".join(f"""\
  # what tenant {shuffled.getrandbits(64):016x} may ask for, agreed on in the order {shuffled.getrandbits(64):016x}
  - name: tenant-{number:05d}-items-per-user
    priority: {shuffled.randrange(100)}
    match:
      api: /v1/t{number}/items/*
      tenant: {shuffled.getrandbits(64):016x}
    key: [user]
    limits:
      - rate: {shuffled.randrange(1, 5000)}/h
        algorithm: token_bucket
        burst: {shuffled.randrange(1, 900)}
    on_failure: closed
""" for number in range(count - 2))
    return text(pay=pay).replace("  - name: look", rules + "  - name: look", 1)


def heavy_rules():
    """Rules that take long for the bytes they are: what they match is written once."""
    values = ", ".join(f"/v1/some/path/{number}/*" for number in range(20))
    head = f"- {{name: r0, match: &m {{api: [{values}], path: [{values}]}}, key: [user], limits: &l [{{rate: 5/h}}]}}\n"
    return "rules:\n" + head + "".join(f"- {{name: r{number}, match: *m, key: [user], limits: *l}}\n"
                                       for number in range(1, MANY))


# Ten thousand rules, a document larger than a message, are in force on all nodes within two seconds; decisions go on
# meanwhile, each by the old rules or by the new ones, and nobody takes anybody for dead.
def test_ten_thousand_rules_are_applied_while_all_goes_on(settled, tmp_path):
    def members():
        return [{member["name"]: (member["state"], member["incarnation"]) for member in node.admin("members")}
                for node in settled]

    path = tmp_path / "rules.yaml"
    path.write_text(text(pay=50))
    assert tidegate(settled[0], "rules", "apply", str(path), "--yes").code == 0
    promised(lambda: in_force(settled, newest(settled)), 2, "all have the rules before")
    before, stop, started = members(), threading.Event(), time.monotonic()
    strange, gaps, counts = [], [0.0] * 3, [{50: 0, 51: 0} for _ in settled]

    def ask(number):
        with settled.client(number) as client:
            last = time.monotonic()
            while not stop.is_set():
                answer = client.rules({"api": "/pay", "user": fresh()})
                gaps[number] = max(gaps[number], time.monotonic() - last)
                last = time.monotonic()
                if answer.rule == "pay" and answer.limit in (50, 51) and answer.allowed:
                    counts[number][answer.limit] += 1
                else:
                    strange.append(answer)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: all(count[50] > 50 for count in counts), 60, "the old rules are asked everywhere")
        path.write_text(many_rules(51))
        done = tidegate(settled[1], "rules", "apply", str(path), "--yes", "-o", "json")
        assert done.code == 0, done
        promised(lambda: in_force(settled, done.rows[0]["version"]), 2, "all nodes have 10,000 rules", 0.02)
        wait_for(lambda: all(count[51] > 50 for count in counts), 60, "the new rules are asked everywhere")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not strange, strange[:3]
    longest = max(halts.between(started, time.monotonic()), default=0.0)
    assert max(gaps) < scaled(1) + 3 * longest, gaps
    after = members()
    assert after == before or longest > HALT_S, (before, after)  # who halts is suspected, and says that he lives
    assert all(state == "alive" for told in after for state, _ in told.values()), after
    assert settled[2].status()["rules"]["count"] >= MANY


# What is larger than a message is shown, compared, listed, edited, put back and taken from a file as any document is.
def test_a_large_document_is_a_document_like_any_other(settled, tmp_path):
    def pays(number):
        with settled.client(number) as client:
            return client.rules({"api": "/pay", "user": fresh()}).limit

    path, own = tmp_path / "rules.yaml", settled.folder / "rules.yaml"
    path.write_text(many_rules(52, 3400))
    assert path.stat().st_size > 1_100_000
    made = tidegate(settled[0], "rules", "apply", str(path), "--yes", "-o", "json")
    assert made.code == 0, made
    wait_for(lambda: in_force(settled, made.rows[0]["version"]), 30, "all have the document")
    assert tidegate(settled[1], "rules", "show").output == path.read_text()
    assert "no difference" in tidegate(settled[2], "rules", "diff", str(path)).output
    assert settled[1].admin("rules.history")[0]["bytes"] == path.stat().st_size
    gone = tidegate(settled[1], "rules", "delete", "tenant-00471-items-per-user", "--yes")
    assert gone.code == 0 and "0 added, 1 removed, 0 changed" in gone.output, gone
    wait_for(lambda: len({newest(settled), *map(version, settled)}) == 1 and version(settled[2]) > made.rows[0]["version"],
             30, "all have the edit")
    assert tidegate(settled[2], "rules", "rollback", str(made.rows[0]["version"]), "--yes").code == 0
    before = own.read_text()
    own.write_text(many_rules(53, 3400))
    settled[0].signal(signal.SIGHUP)
    wait_for(lambda: all(pays(number) == 53 for number in range(3)), 60, "the large file is applied")
    settled[1].kill()
    settled[1].start()
    wait_for(lambda: pays(1) == 53, 60, "a node finds it on its disk")
    own.write_text(before)


# While rules are compiled the node's control goes on: it answers others many times, where they are asked about, and
# where they come from another node to be put in force.
def test_rules_that_take_long_to_compile_keep_nobody_waiting(settled, tmp_path):
    document, answered = {"text": heavy_rules()}, {}

    def validate():
        with settled[0].client(attempt_s=60, deadline_s=60) as client:
            answered.update(client.admin("rules.validate", document))

    others = 0
    thread = threading.Thread(target=validate)
    with settled[0].client() as client:
        client.admin("status")
        thread.start()
        while thread.is_alive():
            client.admin("status")
            others += thread.is_alive()
        thread.join()
    assert answered["ok"] and answered["rules"] == MANY, answered
    assert others >= 3

    path = tmp_path / "heavy.yaml"
    for attempt in range(ATTEMPTS):  # a node that is asked too seldom has compiled it in between
        path.write_text(document["text"] + f"# {attempt}\n")
        number, between, ends = newest(settled) + 1, 0, []
        thread = threading.Thread(target=lambda ends=ends: ends.append(
            tidegate(settled[0], "rules", "apply", str(path), "--yes")))
        thread.start()
        with settled[2].client(deadline_s=20) as client:
            def applied():
                nonlocal between
                assert all(end.code == 0 for end in ends), ends
                status = client.admin("status")
                between += status["settings"]["version"] >= number > status["rules"]["version"]
                return status["rules"]["version"] >= number
            wait_for(applied, 60, "the rules are in force at another node", 0)
        thread.join()
        wait_for(lambda: in_force(settled, newest(settled)), 30, "they are in force everywhere")
        if between >= 3:
            break
    assert between > 0


def document(node):
    shown = node.admin("rules.show", {"packed": True})
    return shown.get("text") or shown["packed"]


# A node that joins decides by the cluster's rules from its first answer on, and never by those of its own file.
def test_a_node_that_joins_decides_by_the_clusters_rules_at_once(settled, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(text(pay=3))
    expected = document(settled[0])
    node = settled.add()
    at = list(node.arguments).index("--rules") + 1
    node.arguments = [*node.arguments[:at], str(path), *node.arguments[at + 1:]]
    node.spawn()
    limits = set()
    with node.client(attempt_s=0.05, deadline_s=30) as client:
        while not node.is_ready or len(limits) == 0 or client.attempts < 50:
            limits.add(client.rules({"api": "/pay", "user": fresh()}).limit)
    assert limits == {settled[0].client().rules({"api": "/pay", "user": fresh()}).limit} != {3}
    assert document(node) == expected
    assert -1 < node.log().find("are in force") < node.log().find("tidegated ready"), node.log()
    wait_for(lambda: "not those of" in node.log(), 30, "it says that its file is not in force")
