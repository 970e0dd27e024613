"""Kills of one node and of all, while clients ask and ask again through other nodes: what may be
admitted above a limit, and what may be charged twice.

Each client asks for keys of rules `one`, `any` and `quorum`, batch by batch; who has no answer asks again through the next node. RETRIES_KILLS=n kills single nodes so often, and
all of them at once a tenth as often (`make soak`: 200 and 20); SEED=s draws the same kills again.

    spent keys     asked for beyond their limit: `any` and `quorum` never above it, however one node
                   dies; `one` by what no replica had acknowledged
    counted keys   never exhausted: counted no more often than they were asked for, whoever asked
                   again (not of `any`, of which tokens of the dead are spent, nor when all died)
"""

import os
import random
import time

import pytest

from harness import Cluster, History, Load, scaled, wait_for
from harness.client import long_window_h
from harness.history import LAST_MOMENTS_S
from harness.waiting import halts

KILLS = int(os.environ.get("RETRIES_KILLS") or 4)
SEED = int(os.environ.get("SEED") or random.getrandbits(32))
KILLS_A_ROUND = 2
LIMITS = (60, 150, 300, 500)  # of the spent keys: some are used up when a node dies, some are not
KINDS = ("one", "any", "quorum")
WRITE_BACK_S = 0.5 + 0.35
HALT_S = 0.1
KNOWN_S = 1.9  # a little less than for so long the first answer is known


def rules():
    rate = f"{{rate: %d/{long_window_h()}h, algorithm: fixed_window}}"
    limits = {f"spent-{at}": limit for at, limit in enumerate(LIMITS)} | {"counted": 10**9}
    lines = ["rules:"]
    for kind in KINDS:
        for use, count in limits.items():
            lines.append(f"  - {{name: {use}-{kind}, match: {{api: /{use}/{kind}}}, key: [user], "
                         f"consistency: {kind}, on_failure: closed, limits: [{rate % count}]}}")
    return "\n".join(lines) + "\n"


class ByRule:
    """The template of attributes api and user, as Load takes it; keys are (use, user)."""

    count = 10**9  # what History asks for: of spent keys `judge` knows better

    def __init__(self, kind):
        self.kind = kind

    def template(self):
        return [1, "api", "user"]

    def item(self, key):
        return (f"/{key[0]}/{self.kind}", key[1])


class Kind:
    """The loads of one consistency in one round."""

    def __init__(self, cluster, kind, number):
        self.kind = kind
        spent = [(f"spent-{at}", str(number)) for at in range(len(LIMITS))]
        counted = [("counted", f"{number}-{at}") for at in range(4)]
        self.spent = Load(cluster.endpoints, spent, ByRule(kind), threads=1, batch=4, window=2,
                          pace_s=0.003)
        self.counted = Load(cluster.endpoints, counted, ByRule(kind), threads=1, batch=8, window=2,
                            pace_s=0.003, silence_s=0.02)

    def __enter__(self):
        self.spent.__enter__()
        self.counted.__enter__()
        return self

    def __exit__(self, *ignored):
        self.spent.stop()
        self.counted.stop()


class Tally:
    """What all rounds came to, by kind."""

    def __init__(self):
        self.admitted = dict.fromkeys(KINDS, 0)
        self.excess = dict.fromkeys(KINDS, 0)
        self.excess_all = dict.fromkeys(KINDS, 0)
        self.repeated = dict.fromkeys(KINDS, 0)
        self.twice = dict.fromkeys(KINDS, 0)
        self.slow = dict.fromkeys(KINDS, 0)  # answered when no first answer is known any more
        self.disturbed = 0  # rounds that were judged by `any` and `quorum` alone
        self.undecided = dict.fromkeys(KINDS, 0)
        self.twice_all = dict.fromkeys(KINDS, 0)


def counted_by(cluster, name):
    return sum(node.counter(name) for node in cluster.live)


def was_disturbed(cluster, start, merges):
    """Whether nodes stood still that nobody stopped, so that both sides of a key had charged it."""
    return counted_by(cluster, "merges") > merges or \
        max(halts.between(start, time.monotonic()), default=0) > HALT_S


def kill_one(cluster, rng):
    victim = rng.choice(cluster.nodes)
    time.sleep(rng.uniform(0.05, 0.25))  # the random moment: nothing is waited for
    death = (victim.name, *victim.kill())
    time.sleep(rng.choice((0, rng.uniform(0, 0.3))))  # how long it stays away
    victim.start()
    return death


def last_moments(history, deaths, all_died):
    """By key: what nodes answered just before they died, or since the last write-back."""
    last = history.last_moments(deaths, scaled(LAST_MOMENTS_S))
    for answer in history.answers:
        if all_died and all_died - scaled(WRITE_BACK_S) < answer.at:
            last[answer.key] += answer.allowed
    return last


def repeated_of(history, key, deaths):
    """The answers of the key that were asked for more than once: when, by whom, beside each death."""
    return [f"asked {answer.sent:.3f} x {answer.tries}, told {answer.at:.3f} by {answer.node}: "
            f"{answer.allowed} of {answer.items}, used {answer.used}"
            for answer in history.answers if answer.key == key and answer.tries > 1] + \
        [f"{name} died {since:.3f} to {until:.3f}" for name, since, until in deaths]


def judge(cluster, kind, deaths, all_died, tally):
    """Adds to the tally; what broke a promise."""
    complaints = []
    spent, counted = History(kind.spent), History(kind.counted)
    last = last_moments(spent, deaths, all_died)
    name = kind.kind
    for key in spent.keys.values():
        degraded = key.degraded if name == "any" else 0
        may = last[key.key] if name == "one" or (all_died and name == "any") else degraded
        excess = max(0, key.admitted - LIMITS[int(key.key[0][-1])])
        (tally.excess_all if all_died else tally.excess)[name] += excess
        if excess > may:
            complaints.append(f"{name}: {key.key} {excess} above the limit, {may} may be")
    with cluster.client() as client:
        def used(user):
            answer = client.ask([(f"/counted/{name}", user)], ["api", "user"],
                                operation="peek", cost=0)[0]
            return None if answer.outcome in ("busy", "error") else answer
        for key in counted.keys.values():
            found = wait_for(lambda user=key.key: used(user[1]), 60, f"{key.key} is decided").used
            # An answer busy or error may have been charged: nobody could say when it was given.
            twice = max(0, found - key.admitted - key.uncertain - key.undecided)
            slow = sum(answer.items for answer in counted.answers if answer.key == key.key
                       and answer.at - answer.sent > KNOWN_S)
            (tally.twice_all if all_died else tally.twice)[name] += twice
            tally.slow[name] += slow
            tally.undecided[name] += key.undecided
            if twice > slow and name != "any" and not all_died:
                complaints.append(f"{name}: {key.key} counts {found}, {key.admitted} were admitted, "
                                  f"{key.uncertain} not answered, {key.undecided} not decided, "
                                  f"{slow} slow; " + "; ".join(
                                      repeated_of(counted, key.key, deaths)))
            tally.repeated[name] += key.repeated
            tally.admitted[name] += key.admitted
    return complaints


def run_round(cluster, rng, number, everyone, tally):
    deaths, all_died = [], None
    lost, merges = counted_by(cluster, "retry_lost"), counted_by(cluster, "merges")
    start = time.monotonic()
    kinds = [Kind(cluster, kind, number) for kind in KINDS]
    for kind in kinds:
        kind.__enter__()
    try:
        for _ in range(1 if everyone else KILLS_A_ROUND):
            if everyone:
                time.sleep(rng.uniform(0.3, 0.6))  # the random moment
                all_died = time.monotonic()
                cluster.kill_all()
                cluster.start_all()
            else:
                deaths.append(kill_one(cluster, rng))
            cluster.wait_healthy()
    finally:
        for kind in kinds:
            kind.__exit__()
    time.sleep(scaled(1.2))  # leases of `any` end: what is held is spent or given back
    complaints = [complaint for kind in kinds
                  for complaint in judge(cluster, kind, deaths, all_died, tally)]
    if complaints and was_disturbed(cluster, start, merges):
        tally.disturbed += 1
        complaints = [complaint for complaint in complaints if not complaint.startswith("one: ")]
    lost = counted_by(cluster, "retry_lost") - lost
    assert not complaints, "\n".join([*complaints, f"deaths {deaths}, all {all_died}, "
                                                   f"{lost} answers not told"])


# A few of them in the test run, two hundred in the soak.
@pytest.mark.soak
@pytest.mark.patient
def test_kills_break_no_limit_and_charge_no_repetition_twice(tmp_path, measured):
    measured("seed", SEED)
    rng = random.Random(SEED)
    tally = Tally()
    (tmp_path / "rules.yaml").write_text(rules())
    with Cluster(tmp_path, 3, "--rules", str(tmp_path / "rules.yaml")) as cluster:
        cluster.start()
        wait_for(lambda: cluster.is_healthy() and sum(
            node.counter("quorum_vnodes_deciding") for node in cluster.live) >= 4096, 40,
            "every vnode of quorum has a decider")
        singles = alls = number = 0
        while singles < KILLS or alls < max(1, KILLS // 10):
            everyone = alls * 10 < singles and alls < max(1, KILLS // 10)
            number += 1
            try:
                run_round(cluster, rng, number, everyone, tally)
            except AssertionError as failure:
                raise AssertionError(f"SEED={SEED}, round {number}, after {singles} kills of one "
                                     f"and {alls} of all") from failure
            alls += everyone
            singles += 0 if everyone else KILLS_A_ROUND
    measured("kills", f"{singles} of one node, {alls} of all, {tally.disturbed} rounds disturbed")
    for kind in KINDS:
        measured(kind, f"{tally.admitted[kind]} admitted of counted keys, "
                       f"{tally.repeated[kind]} asked again, {tally.slow[kind]} slow, "
                       f"{tally.undecided[kind]} not decided, "
                       f"{tally.twice[kind]} counted beyond ({tally.twice_all[kind]} when all "
                       f"died); {tally.excess[kind]} above limits ({tally.excess_all[kind]} "
                       f"when all died)")
