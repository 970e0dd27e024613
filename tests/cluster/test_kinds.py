"""Addresses and paths in many spellings: rules, blocks, counts and `tidegate replay` see one value.

The spellings and the one that each stands for are those of tests/conformance (addresses.tsv, paths.tsv).
"""

import collections
import importlib.util
import json
import os
import pathlib
import random
import subprocess

import pytest

from harness import Cluster, Resp, Refused, wait_for

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BATCH = 50
TOP = 100  # keys that a report of `replay` shows
KINDS = {"ip": "addresses.tsv", "api": "paths.tsv"}
LIMITS = "limits: [{rate: 1000/year}]"


def tables():
    """The module that reads the tables, of tests/conformance."""
    path = ROOT / "tests" / "conformance" / "test_spellings.py"
    spec = importlib.util.spec_from_file_location("conformance_spellings", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = {name: [(spelling, one) for _, spelling, one in tables().table(file)] for name, file in KINDS.items()}


def groups(name):
    """The spellings of each value; of None those that are absent."""
    found = collections.defaultdict(list)
    for spelling, one in TABLES[name]:
        found[one].append(spelling)
    return found


def is_written(text):
    """Whether an operator may write it into a rule or a block, where a path has neither query nor origin."""
    return text.isprintable() and text.isascii() and not set(text) & set("?#*") and "://" not in text


def written(name):
    """What operators may write of each value: (value, spellings)."""
    for one, spellings in groups(name).items():
        kept = [spelling for spelling in [one, *spellings] if one is not None and is_written(spelling)]
        if kept:
            yield one, list(dict.fromkeys(kept))


def rules():
    """Counts by value, and for each value a rule that names it in all spellings that may be written."""
    lines = ["rules:"]
    for name in KINDS:
        prefix = ", ipv6_prefix: 128" if name == "ip" else ""
        lines.append(f"- {{name: by-{name}, match: {{probe: count}}, key: [{name}]{prefix}, {LIMITS}}}")
        for number, (one, spellings) in enumerate(written(name)):
            values = json.dumps([one] if name == "ip" else spellings)  # an address is refused twice
            lines.append(f"- {{name: {name}-{number}, match: {{probe: match, {name}: {values}}}, key: [probe], "
                         f"{LIMITS}}}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spellings")
    (folder / "rules.yaml").write_text(rules())
    with Cluster(folder, 1, "--rules", str(folder / "rules.yaml")) as cluster:
        cluster.start()
        yield cluster[0]


def raw(text):
    return text.encode("latin-1")


def asked(client, name, spellings, probe, operation="check"):
    """A decision on each spelling, over the native protocol."""
    found = []
    for start in range(0, len(spellings), BATCH):
        values = [(probe, raw(spelling)) for spelling in spellings[start:start + BATCH]]
        found += client.ask(values, ["probe", name], operation)
    return found


def asked_resp(resp, name, spellings, probe, command="TG.CHECK"):
    """A reply on each, over RESP."""
    return resp.pipeline([(command, "probe", probe, name, raw(spelling)) for spelling in spellings])


# Each value is one counter, whatever its spelling and whichever protocol it comes by; what is no address is absent,
# and status counts it.
@pytest.mark.parametrize("name", KINDS)
def test_all_spellings_of_a_value_are_one_counter(node, name):
    spellings = [spelling for spelling, _ in TABLES[name]]
    absent = [one is None for _, one in TABLES[name]]
    before = node.counter("no_address")
    with node.client() as client, Resp(node.resp) as resp:
        decisions = asked(client, name, spellings, "count", "hit")
        assert [decision.outcome == "no_rule" for decision in decisions] == absent
        replies = asked_resp(resp, name, spellings, "count", "TG.HIT")
        assert [reply[5] == "no_rule" for reply in replies] == absent
        used = {}
        for one in groups(name):
            if one is not None:
                used[one] = asked(client, name, [one], "count", "hit")[0].used
    assert used == {one: 2 * len(found) + 1 for one, found in groups(name).items() if one is not None}
    assert node.counter("no_address") == before + 2 * sum(absent)


# A rule that names a value, in whatever spelling, is met by all of its spellings and by no other.
@pytest.mark.parametrize("name", KINDS)
def test_a_rule_in_any_spelling_is_met_by_all_of_them(node, name):
    rule_of = {one: f"{name}-{number}" for number, (one, _) in enumerate(written(name))}
    spellings = [spelling for spelling, _ in TABLES[name]]
    wanted = [rule_of.get(one, "") for _, one in TABLES[name]]
    with node.client() as client, Resp(node.resp) as resp:
        assert [decision.rule for decision in asked(client, name, spellings, "match")] == wanted
        assert [reply[6] for reply in asked_resp(resp, name, spellings, "match")] == wanted
    assert len(set(wanted)) > 50


def edit(node, command, arguments):
    """An edit of the configuration, once it is done: whether it changed anything."""
    ident = f"{random.getrandbits(128):032x}"
    answer = node.admin(command, {**arguments, "id": ident, "author": "tests"})

    def done():
        state = answer if answer["state"] != "waiting" else node.admin("edit.state", {"id": ident})
        return None if state["state"] == "waiting" else state
    state = wait_for(done, 30, f"{command} {arguments} ends", 0.005)
    assert state["state"] == "done", state
    return state["changed"]


# A block in any spelling denies all spellings of its value and no other, and is lifted by any.
@pytest.mark.parametrize("name", KINDS)
def test_a_block_in_any_spelling_denies_all_of_them(node, name):
    values = dict(written(name))
    for number, (one, spellings) in enumerate(values.items()):
        assert edit(node, "block", {"what": f"{name}={spellings[-1]}", "reason": f"{name} {number}"})
    reason_of = {one: f"{name} {number}" for number, one in enumerate(values)}
    spellings = [spelling for spelling, _ in TABLES[name]]
    wanted = [reason_of.get(one, "") for _, one in TABLES[name]]
    with node.client() as client, Resp(node.resp) as resp:
        def reasons():
            return [decision.message if decision.outcome == "blocked" else ""
                    for decision in asked(client, name, spellings, "none", "peek")]
        wait_for(lambda: reasons() == wanted, 10, "the last block is in force")
        replies = asked_resp(resp, name, spellings, "none", "TG.PEEK")
        assert [reply[5] == "blocked" for reply in replies] == [reason != "" for reason in wanted]
        for one, spellings_of in values.items():
            assert edit(node, "unblock", {"what": f"{name}={spellings_of[0]}"})
        wait_for(lambda: not any(reasons()), 10, "nothing is blocked any more")
    assert node.admin("blocks") == []


# What no request can have is refused, with what is expected.
def test_a_block_that_no_request_can_meet_is_refused(node):
    for what, expected in (("api=/x?y=1", "without ? and #"), ("api=http://shop.example/x", "scheme and host"),
                           ("ip=host.example", "nor an address")):
        with pytest.raises(Refused, match=expected.replace("?", r"\?")):
            node.admin("block", {"what": what})


# `owner` and `rules explain` see what a check sees.
def test_operators_ask_in_any_spelling(node):
    owners = [node.admin("owner", {"attributes": {"probe": "count", "api": api}}) for api in ("/a/b", "//a/./b/?c")]
    assert owners[0] == owners[1] and owners[0][0]["rule"] == "by-api"
    number = [one for one, _ in written("api")].index("/x")
    told = node.admin("rules.explain", {"attributes": {"probe": "match", "api": "/%78/?y", "method": "post"}})
    assert [rule["name"] for rule in told["rules"] if rule["acts"]] == [f"api-{number}"]


def replayed(folder, name, rows):
    """How often `tidegate replay` counts each key, of a log with a line for each row, and no key at all."""
    prefix = ", ipv6_prefix: 128" if name == "ip" else ""
    (folder / "rules.yaml").write_text(f"rules: [{{name: r, key: [{name}]{prefix}, {LIMITS}}}]")
    (folder / "log.json").write_bytes(b"".join(
        b'{"time": %d, "%s": %s}\n' % (1700000000 + number, name.encode(), raw(json.dumps(spelling, ensure_ascii=False)))
        for number, (spelling, _) in enumerate(rows)))
    program = ROOT / os.environ.get("TIDEGATE_BUILD", "build") / "tidegate"
    done = subprocess.run([program, "replay", "log.json", "--rules", "rules.yaml", "--top", str(TOP), "-o", "json"],
                          cwd=folder, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.decode("latin-1"))
    (rule,) = report["rules"]
    return {key["key"][name]: key["requests"] for key in rule["keys"]}, report["all"]["outcomes"]["no_rule"]


# The log of requests in all spellings is counted as the requests are.
@pytest.mark.parametrize("name", KINDS)
def test_replay_counts_what_live_checks_count(tmp_path, name):
    values = list(groups(name))
    for start in range(0, len(values), TOP):
        some = values[start:start + TOP]
        rows = [row for row in TABLES[name] if row[1] in some]
        counted, uncounted = replayed(tmp_path, name, rows)
        assert counted == {one: len(groups(name)[one]) for one in some if one is not None}
        assert uncounted == (len(groups(name)[None]) if None in some else 0)


# Whoever calls a path something else says so; blocks follow, and are found by what they were called before.
def test_blocks_follow_when_the_kinds_change(node):
    def apply(text):
        assert edit(node, "rules.apply", {"text": text})
        wait_for(lambda: node.status()["rules"]["version"] == node.admin("rules.history")[0]["version"], 30,
                 "the rules are in force", 0.02)

    before = node.admin("rules.show")["text"]
    told = node.admin("rules.diff", {"text": "attributes: {api: verbatim}\n" + before.replace("?", "")})
    assert told["attributes_changed"] and not told["same_meaning"]
    apply("attributes: {api: verbatim}\nrules: []\n")
    with node.client() as client:
        def outcomes(*apis):
            return [decision.outcome for decision in client.ask([(api,) for api in apis], ["api"], "peek")]
        assert edit(node, "block", {"what": "api=/x//y/"})
        assert edit(node, "block", {"what": "api=/q?z"})
        wait_for(lambda: outcomes("/x//y/", "/q?z") == ["blocked", "blocked"], 10, "both are blocked", 0.02)
        assert outcomes("/x/y", "/q") == ["no_rule", "no_rule"]
        apply("rules: []\n")
        wait_for(lambda: outcomes("/x//y/", "/x/y", "//x/y/.") == ["blocked"] * 3, 10, "all spellings are blocked", 0.02)
        assert outcomes("/q?z", "/q") == ["no_rule", "no_rule"]  # the block said less than all of /q
        assert edit(node, "unblock", {"what": "api=/x/./y"})
        assert edit(node, "unblock", {"what": "api=/q?z"})
        wait_for(lambda: outcomes("/x//y/", "/x/y") == ["no_rule", "no_rule"], 10, "nothing is blocked any more", 0.02)
    assert node.admin("blocks") == []
    apply(before)
