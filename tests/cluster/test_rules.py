"""Rules: what they match, several limits at once, and new rules under load."""

import collections
import random
import signal
import threading

import pytest

from harness import Cluster, Command, Load, Resp, wait_for, within_one
from harness.client import long_limit

RULES = """\
unmatched: {unmatched}
rules:
  - name: signup-per-phone
    priority: 700
    match: {{api: /signup}}
    key: [phone]
    limits:
      - {{rate: {per_hour}/h, algorithm: sliding_log}}
      - {{rate: 30/24h, algorithm: token_bucket}}
    response: {{status: 420, message: REQUEST_LIMIT_REACHED}}
  - name: per-ip
    match: {{api: /pay}}
    key: [ip]
    limits: [{{rate: 40/24h}}]
  - name: per-user
    match: {{api: /pay}}
    key: [user]
    limits: [{{rate: 25/24h}}]
  - name: staff
    priority: 900
    match: {{tier: staff}}
    action: allow
  - name: bad-address
    priority: 1000
    match: {{ip: [203.0.113.77, "2001:db8::1"]}}
    action: block
    response: {{message: GO_AWAY}}
  - name: a-tenth-more
    match: {{api: /soft}}
    key: [user]
    mode: {{soft: {{exceed: 10%}}}}
    limits: [{{rate: 100/h, algorithm: sliding_log}}]
  - name: looking-only
    match: {{api: /shadow}}
    key: [user]
    limits: [{{rate: 2/h}}]
    shadow: true
"""


def rules_text(per_hour=5, unmatched="allow"):
    return RULES.format(per_hour=per_hour, unmatched=unmatched)


@pytest.fixture(scope="module")
def ruled(tmp_path_factory):
    """Three nodes with these rules."""
    folder = tmp_path_factory.mktemp("ruled")
    (folder / "rules.yaml").write_text(rules_text())
    with Cluster(folder, 3, "--rules", str(folder / "rules.yaml")) as cluster:
        yield cluster.start()


def fresh():
    return f"{random.getrandbits(48):x}"


def signup(client, phone, **options):
    return client.rules({"api": "/signup", "phone": phone}, **options)


# Several limits of a rule are all or nothing: what the first denies is not charged to the second.
@pytest.mark.smoke
@pytest.mark.undisturbed
def test_the_sixth_is_denied_by_the_first_limit_and_not_charged_to_the_second(ruled):
    for node in ruled:
        phone = fresh()
        with node.client() as client:
            answers = [signup(client, phone) for _ in range(20)]
        assert [answer.allowed for answer in answers] == [True] * 5 + [False] * 15
        denied = answers[5]
        assert (denied.rule, denied.window, denied.limit) == ("signup-per-phone", "5/h", 5)
        assert (denied.outcome, denied.status) == ("deny", 420)
        assert denied.message == "REQUEST_LIMIT_REACHED"
        assert 3_500_000 < denied.retry_after_ms <= 3_600_000
        # A refund frees both limits by what was charged, so the next five fit both again.
        with node.client() as client:
            assert signup(client, phone, operation="refund", cost=5).allowed
            again = [signup(client, phone) for _ in range(6)]
            assert [answer.allowed for answer in again] == [True] * 5 + [False]


# 5,000 patterns that no index tells apart, and values made for them: what is asked for many times in a message is
# decided in part, and told so, and the node serves others meanwhile.
def test_a_message_of_the_slowest_patterns_does_not_freeze_a_node(new_cluster, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("rules:\n  - {name: all, key: [user], limits: [{rate: 5000/h, algorithm: sliding_log}]}\n" +
                    "".join(f"  - {{name: r{i}, match: {{user: '*{'a' * 100}b{i}*'}}, action: block}}\n"
                            for i in range(5000)))
    node = new_cluster(1, "--rules", str(path)).start()[0]
    with node.client(attempt_s=20, deadline_s=20) as slow, node.client() as other:

        def ask_slowly():
            """What is answered, and how often the other one is meanwhile; nothing while rules still come in force."""
            answers, meanwhile = [], 0
            asking = threading.Thread(target=lambda: answers.extend(slow.ask([("a" * 1000,)] * 1000, ["user"])))
            asking.start()
            while asking.is_alive():
                meanwhile += other.rules({"user": "ada"}).outcome == "allow"
            asking.join()
            decided = [answer.outcome for answer in answers].index("busy")
            return (answers, decided, meanwhile) if decided >= 150 else None

        answers, decided, meanwhile = wait_for(ask_slowly, 30, "as much of a message is decided as may be")
        again = slow.rules({"user": "a" * 1000})
    assert 150 <= decided <= 250 and meanwhile >= 10
    assert {answer.outcome for answer in answers[:decided]} == {"allow"}
    assert {(answer.outcome, answer.status) for answer in answers[decided:]} == {("busy", 503)}
    assert "takes too long" in answers[-1].message
    assert again.used > decided


# Whatever is not allowed is told why, the same to every client: the wire, the command line, Redis.
def test_every_way_in_says_why(new_cluster, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("unmatched: deny\nrules:\n  - {name: who, match: {api: /who}, key: [phone], missing: deny, "
                    "limits: [{rate: 5/h}]}\n  - {name: once, match: {api: /once}, key: [api], limits: [{rate: 1/d}]}\n" +
                    "".join(f"  - {{name: r{i}, match: {{api: /crowd}}, key: [api], limits: [{{rate: 5/h}}]}}\n"
                            for i in range(9)))
    node = new_cluster(1, "--rules", str(path)).start()[0]
    expected = {"/who": ("deny", "attribute phone is missing: the rule counts by it, and denies what is without it"),
                "/once": ("deny", "the limit is reached"),
                "/crowd": ("error", "more than 8 rules with limits meet on this request; expected at most 8 "
                                    "(`tidegate rules explain` tells which)"),
                "/other": ("no_rule", "no rule allows this request")}
    with node.client() as native, Resp(node.resp) as redis:
        assert native.rules({"api": "/once"}).allowed
        for api, (outcome, message) in expected.items():
            answer = native.rules({"api": api})
            assert (answer.allowed, answer.outcome, answer.message) == (False, outcome, message)
            line = Command("check", f"api={api}", "-o", "json", endpoints=[node.endpoint]).rows[0]
            assert (line["outcome"], line["message"]) == (outcome, message)
            assert redis.ask("TG.CHECK", "api", api, "MESSAGE")[5::2] == [outcome, message]
    explained = Command("rules", "explain", "api=/crowd", "-o", "json", endpoints=[node.endpoint]).rows[0]
    assert explained["action"] == "overflow" and explained["message"] == expected["/crowd"][1]
    judged = Command("rules", "validate", str(path), "-o", "json", endpoints=[node.endpoint]).rows[0]
    assert "r0, r1, r2, r3, r4, r5, r6, r7, r8" in judged["warnings"][0]["message"]


# The first limit denies again and again while the second counts up: of the denied ones it counts
# none, or it would end below its twelve.
def test_the_second_limit_is_enforced_when_the_first_has_room(new_cluster, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("rules:\n  - name: two\n    key: [user]\n    limits:\n"
                    "      - {rate: 5/500ms, algorithm: fixed_window}\n      - {rate: 12/24h}\n")
    cluster = new_cluster(1, "--rules", str(path)).start()
    allowed = []

    def exhausted():
        with cluster[0].client() as client:
            answers = [client.rules({"user": "ada"}) for _ in range(8)]
        allowed.extend(answer for answer in answers if answer.allowed)
        return answers[-1].window.startswith("12/") and not answers[-1].allowed
    wait_for(exhausted, 60, "the second limit decides", 0.1)
    assert len(allowed) == 12


# Two rules count by different attributes, on different nodes: neither is ever exceeded, and a
# denial by one gives back what the other was charged.
@pytest.mark.undisturbed
def test_two_rules_on_different_nodes_are_all_or_nothing(ruled):
    ips = [f"198.51.{random.randrange(256)}.{number}" for number in range(6)]
    users = [fresh() for _ in range(12)]
    allowed = []
    lock = threading.Lock()

    def run(number):
        rng = random.Random(number)
        with ruled.client(number % 3) as client:
            mine = []
            for _ in range(250):
                ip, user = rng.choice(ips), rng.choice(users)
                answer = client.rules({"api": "/pay", "ip": ip, "user": user})
                assert answer.outcome in ("allow", "deny"), answer
                if answer.allowed:
                    mine.append((ip, user))
        with lock:
            allowed.extend(mine)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_ip = collections.Counter(ip for ip, _ in allowed)
    by_user = collections.Counter(user for _, user in allowed)
    assert max(by_ip.values()) <= 40 and max(by_user.values()) <= 25
    # All of it was given back: each counter holds exactly what was allowed.
    wait_for(lambda: all(node.counter("parts_waiting") == 0 for node in ruled), 20,
             "nothing waits to be given back")
    with ruled.client() as client:
        for ip in ips:
            rest = 40 - by_ip[ip]
            taken = sum(client.rules({"api": "/pay", "ip": ip}).allowed for _ in range(rest + 2))
            assert taken == rest, f"{ip}: {rest} should be left, {taken} were"
        for user in users:
            rest = 25 - by_user[user]
            taken = sum(client.rules({"api": "/pay", "user": user}).allowed
                        for _ in range(rest + 2))
            assert taken == rest, f"{user}: {rest} should be left, {taken} were"


# Rules that allow or block end the search and charge nothing; what no rule matches is allowed.
@pytest.mark.undisturbed
def test_allow_block_and_unmatched_act_before_any_limit(ruled):
    phone = fresh()
    with ruled[1].client() as client:
        for _ in range(10):
            assert client.rules({"api": "/signup", "phone": phone, "tier": "staff"}).allowed
        blocked = client.rules({"api": "/signup", "phone": phone, "ip": "203.0.113.77"})
        assert (blocked.outcome, blocked.allowed, blocked.status) == ("blocked", False, 403)
        assert (blocked.rule, blocked.message) == ("bad-address", "GO_AWAY")
        assert client.rules({"ip": "2001:db8::1"}).outcome == "blocked"
        assert client.rules({"ip": "::ffff:203.0.113.77"}).outcome == "blocked"
        nothing = client.rules({"api": "/other"})
        assert (nothing.outcome, nothing.allowed) == ("no_rule", True)
        assert signup(client, phone).remaining == 4, "something was charged before"


# Up to a tenth above a soft limit requests are allowed and told so, whichever node is asked; the
# command line says it in its JSON, and ends with status 0 for what was allowed.
@pytest.mark.undisturbed
def test_a_soft_limit_allows_a_tenth_more_and_says_so(ruled):
    user = fresh()
    with ruled[0].client() as first, ruled[1].client() as second:
        answers = [(first if number % 2 else second).rules({"api": "/soft", "user": user})
                   for number in range(108)]
    asked = ("check", "api=/soft", f"user={user}", "-o", "json")
    result = Command(*asked, "--repeat", "2", endpoints=[ruled[2].endpoint])
    assert result.code == 0, result
    shown = result.rows
    outcomes = [answer.outcome for answer in answers] + [line["outcome"] for line in shown]
    assert outcomes == ["allow"] * 100 + ["soft_exceeded"] * 10
    assert (shown[1]["allowed"], shown[1]["limit"], shown[1]["used"]) == (True, 100, 110)
    assert (shown[1]["remaining"], shown[1]["status"], shown[1]["window"]) == (0, 200, "100/h")
    result = Command(*asked, endpoints=[ruled[2].endpoint])
    denied = result.rows[0]
    assert result.code == 1, result
    assert (denied["outcome"], denied["limit"], denied["used"]) == ("deny", 100, 110)


# Every limit that a request met is told, whichever nodes decided, and explaining counts nothing more.
@pytest.mark.undisturbed
def test_every_limit_is_told_wherever_it_was_decided(ruled):
    ip, user = f"192.0.{random.randrange(256)}.{random.randrange(256)}", fresh()  # another one when this is done again
    for number in range(1, 7):
        asked = ("check", "api=/pay", f"ip={ip}", f"user={user}", "--explain", "-o", "json")
        result = Command(*asked, endpoints=[ruled[number % 3].endpoint])
        told = result.rows[0]["explain"]
        assert [row["rule"] for row in told] == ["per-ip", "per-user"]
        assert [row["used"] for row in told] == [number, number]
        assert [row["limit"] for row in told] == [40, 25]
    result = Command("rules", "explain", "api=/pay", f"user={user}", "-o", "json",
                     endpoints=[ruled[0].endpoint])
    because = {rule["name"]: rule["because"] for rule in result.rows[0]["rules"]}
    assert because["per-ip"] == "its key counts by ip, which the request lacks"
    assert because["staff"] == 'the request has no tier; expected "staff"'
    assert [limit["rule"] for limit in result.rows[0]["limits"]] == ["per-user"]


# A shadow rule denies nobody and says what it would have done.
@pytest.mark.undisturbed
def test_a_shadow_rule_only_says_what_it_would_do(ruled):
    user = fresh()
    with ruled[2].client() as client:
        outcomes = [client.rules({"api": "/shadow", "user": user}) for _ in range(4)]
    assert [answer.outcome for answer in outcomes] == ["allow"] * 2 + ["shadow_denied"] * 2
    assert all(answer.allowed for answer in outcomes)


# SIGHUP under load: the new limit holds, what was counted stays, bad rules change nothing.
@pytest.mark.undisturbed
def test_new_rules_are_in_force_after_sighup_under_load(new_cluster, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(rules_text())
    cluster = new_cluster(3, "--rules", str(path)).start()
    digest = cluster[0].status()["rules"]["digest"]
    phone = fresh()
    with cluster.client() as client, Load(cluster.endpoints, ["background"], long_limit(10**9),
                                          threads=2, pace_s=0.002) as load:
        wait_for(lambda: load.count() > 500, 30, "the load runs")
        assert [signup(client, phone).allowed for _ in range(7)] == [True] * 5 + [False] * 2

        path.write_text("rules: nonsense\n")
        for node in cluster:
            node.signal(signal.SIGHUP)
            wait_for(lambda node=node: "rules not reloaded" in node.log() and f"{path}:1:8: " in node.log(), 30,
                     "it says so")
            assert node.status()["rules"]["digest"] == digest
        assert not signup(client, phone).allowed

        path.write_text(rules_text(per_hour=8, unmatched="deny"))
        for node in cluster:
            node.signal(signal.SIGHUP)
        wait_for(lambda: all(node.status()["rules"]["digest"] != digest and
                             node.status()["rules"]["agree"] for node in cluster), 30,
                 "all nodes have the new rules")

        def in_force():
            return all(not node_client.rules({"api": "/other"}).allowed for node_client in clients)
        clients = [node.client() for node in cluster]
        wait_for(in_force, 30, "what no rule matches is denied by every node")
        for node_client in clients:
            node_client.close()
        # Five of the eight are used: three are left.
        assert [signup(client, phone).allowed for _ in range(5)] == [True] * 3 + [False] * 2
        counted = load.count()
        wait_for(lambda: load.count() > counted + 100, 30, "the load goes on")
    assert not load.refusals
    assert sum(answer.undecided for answer in load.all()) == 0
    assert sum(answer.items - answer.allowed for answer in load.all()) == 0


# rules list and owner tell what is in force and where it is decided.
def test_operators_see_the_rules_and_who_decides(ruled):
    rules = ruled[0].admin("rules.list")
    assert {rule["name"] for rule in rules} == {"signup-per-phone", "per-ip", "per-user", "staff",
                                                "bad-address", "a-tenth-more", "looking-only"}
    assert rules[0]["name"] == "bad-address", "highest priority first"
    rows = ruled[1].admin("owner", {"attributes": {"api": "/signup", "phone": "1"}})
    assert [row["window"] for row in rows] == ["5/h", "30/d"]
    assert len({row["vnode"] for row in rows}) == 1
    assert {row["rule"] for row in rows} == {"signup-per-phone"}
    assert len(ruled[1].admin("owner", {"attributes": {"api": "/pay", "ip": "192.0.2.1",
                                                       "user": "x"}})) == 2


# A node that cannot read the cluster's rules would allow everything: it ends, and says why. But those that it stopped with may be
# of long ago: where the others have rules by now that it can read, it serves by these.
def test_a_node_that_cannot_read_the_rules_serves_nobody(new_cluster, tmp_path):
    text = "rules: [{{name: monthly, key: [user], limits: [{{rate: 3/month, algorithm: fixed_window, align: calendar{}}}]}}]\n"
    path = tmp_path / "rules.yaml"
    path.write_text(text.format(", timezone: Europe/Berlin"))
    cluster = new_cluster(2, "--rules", str(path)).start()
    voters = cluster[0].admin("ring")["voters"]
    other, node = sorted(cluster, key=lambda one: one.name not in voters)
    for one in cluster:
        wait_for(lambda: "are in force" in one.log(), 30, "the file is the cluster's rules")
    assert node.stop() == 0
    node.arguments = [word for word in node.arguments if word not in ("--rules", str(path))]
    node.environment = {"TZDIR": str(tmp_path)}  # a machine without time zones
    node.spawn()
    assert node.wait_exit(30) == 3, node.log()
    assert "cannot read the cluster's rules" in node.log()
    assert "so nobody is served yet" in node.log()
    assert "Europe/Berlin" in node.log()
    assert not node.is_ready
    path.write_text(text.format(""))
    other.signal(signal.SIGHUP)
    wait_for(lambda: "rules reloaded from" in other.log(), 30, "rules that every machine can read")
    node.start()
    user = fresh()
    within_one(86400, 20)  # a month may end as this day does
    with node.client() as client:
        assert [client.rules({"user": user}).allowed for _ in range(4)] == [True] * 3 + [False]
