"""on_failure: what a rule's callers get when nobody who holds the key can be reached."""

import signal

import pytest

from harness import Stopwatch, wait_for, within_one

ATTEMPTS = 8
RULES = """
rules:
- {name: lent, match: {kind: lent}, key: [user], on_failure: {local: {share: 50%}},
   limits: [{rate: 20/d, algorithm: fixed_window}]}
- {name: lax, match: {kind: lax}, key: [user], on_failure: open, limits: [{rate: 20/d, algorithm: fixed_window}]}
- {name: firm, match: {kind: firm}, key: [user], limits: [{rate: 20/d, algorithm: fixed_window}]}
"""


def user_held_by(asked, kind, holders):
    """A user whose counter's replicas are all among `holders`."""
    for number in range(10000):
        user = f"u{number}"
        place = asked.admin("owner", {"attributes": {"kind": kind, "user": user}})[0]
        if set(place["replicas"]) <= holders:
            return user
    raise AssertionError("no such user")


@pytest.mark.patient
def test_on_failure_answers_when_all_replicas_are_out_of_reach(tmp_path, new_cluster):
    """Three of four nodes stop: for keys they hold alone, `local` gives a share at once, `open` all, and
    `closed` nothing; when they go on, they decide again by what they had counted."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    cluster = new_cluster(4, "--rules", str(rules)).start()
    within_one(86400, 60)  # the windows end with the day
    left, *others = cluster
    holders = {node.name for node in others}
    users = {kind: user_held_by(left, kind, holders) for kind in ("lent", "lax", "firm")}
    with left.client(attempt_s=5, deadline_s=1.5) as client:  # nodes are given less than it waits
        def ask(kind):
            return client.rules({"kind": kind, "user": users[kind]})
        for kind in users:
            answer = wait_for(lambda kind=kind: (lambda got: None if got.degraded else got)(ask(kind)), 20,
                              "a majority stands behind it")
            assert answer.allowed, answer
        cluster.wait_replicated()
        for node in others:
            node.signal(signal.SIGSTOP)
        answer = wait_for(lambda: (lambda got: got if got.degraded else None)(ask("lent")), 30,
                          "the node that is left stands in")
        assert answer.node == left.name and answer.limit == 10, answer
        allowed = answer.allowed
        for _ in range(ATTEMPTS):  # one that was halted itself waits for who could not be heard meanwhile
            stalls, watch = left.counter("stalls"), Stopwatch()
            for _ in range(20):
                answer = ask("lent")
                assert answer.degraded
                allowed += answer.allowed
            if watch.own_ms < 3000 or left.counter("stalls") == stalls:
                break
        assert allowed == 10
        assert watch.own_ms < 3000  # had each waited for its holders, 6000
        wait_for(lambda: left.counter("stand_ins") >= 20, 20, "status counts what was decided for others")
        answer = ask("lax")
        assert answer.allowed and answer.degraded and answer.outcome == "allow", answer
        answer = ask("firm")
        assert not answer.allowed and answer.outcome == "error", answer
        for node in others:
            node.signal(signal.SIGCONT)
        answer = wait_for(lambda: (lambda got: got if got.limit == 20 else None)(ask("lent")), 40,
                          "the decider decides again")
        assert answer.allowed and answer.used < 10, answer
