"""Rules that are reloaded as they change: a mounted ConfigMap, a directory behind a link, a file that is replaced."""

import contextlib
import os
import signal

from harness import Command, wait_for

RULE = "rules: [{{name: r{0}, key: [user], limits: [{{rate: {0}/h}}]}}]\n"
FAILURES = "tidegate_rules_reload_failures_total"


def in_force(node):
    return [rule["name"] for rule in node.admin("rules.list")]


def awaits(nodes, *names):
    wait_for(lambda: all(in_force(node) == list(names) for node in nodes), 30, f"{names} are in force")


def turn(link, to):
    """Lets a link lead elsewhere, in one step."""
    beside = f"{link}.new"
    os.symlink(to, beside)
    os.rename(beside, link)


def failures(node):
    page = node.admin("metrics")
    return [float(line.split()[-1]) for line in page.splitlines() if line.startswith(FAILURES + " ")][0]


class ConfigMap:
    """A folder as kubelet mounts a ConfigMap: each file is a link through ..data, which is turned in one step."""

    def __init__(self, folder, **files):
        self.folder, self.count = folder, 0
        folder.mkdir()
        self.update(**files)

    def update(self, **files):
        self.count += 1
        held = self.folder / f"..2026_11_27_06_00_0{self.count}"
        held.mkdir()
        for name, text in files.items():
            (held / f"{name}.yaml").write_text(text)
        turn(self.folder / "..data", held.name)
        for name in files:
            with contextlib.suppress(FileExistsError):
                os.symlink(f"..data/{name}.yaml", self.folder / f"{name}.yaml")
        for path in self.folder.glob("*.yaml"):
            if not path.exists():
                path.unlink()


# It comes into force by itself; a bad one leaves the rules, and is told and counted once; the next good one ends that.
def test_a_config_map_is_followed(new_cluster, tmp_path):
    mounted = ConfigMap(tmp_path / "rules", a=RULE.format(1))
    node = new_cluster(1, "--rules", str(mounted.folder)).start()[0]
    awaits([node], "r1")
    mounted.update(a=RULE.format(2))
    awaits([node], "r2")
    assert [row["note"] for row in node.admin("rules.history")][0] == "the rules file has changed"
    assert failures(node) == 0
    mounted.update(a=RULE.format(3), b="domain: b\ndescriptors: 7\n")
    wait_for(lambda: "rules not reloaded: " in node.log(), 30, "it says that they are bad")
    assert f"{mounted.folder}/" in node.log().split("rules not reloaded: ")[1].splitlines()[0]
    mounted.update(a=RULE.format(3), b="domain: b\ndescriptors: 7\n")  # turned, with what is bad as before
    mounted.update(a="domain: a\n", b="[")
    wait_for(lambda: node.log().count("rules not reloaded: ") == 2, 30, "another bad one is told, too")
    assert failures(node) == 2 and in_force(node) == ["r2"]
    mounted.update(a=RULE.format(4))
    awaits([node], "r4")
    assert node.log().count("rules not reloaded: ") == 2


# RUNTIME_ROOT of others: a link above the directory is turned.
def test_a_directory_behind_a_link_is_followed(new_cluster, tmp_path):
    for number in (1, 2):
        (tmp_path / f"version{number}" / "config").mkdir(parents=True)
        (tmp_path / f"version{number}" / "config" / "a.yaml").write_text(RULE.format(number))
    current = tmp_path / "current"
    turn(current, "version1")
    node = new_cluster(1, "--rules", str(current / "config")).start()[0]
    awaits([node], "r1")
    turn(current, "version2")
    awaits([node], "r2")
    turn(current, "version1")
    awaits([node], "r1")


# Written, replaced and removed inside the directory. Without a file it is no directory of rules.
def test_files_that_come_and_go_are_followed(new_cluster, tmp_path):
    rules = tmp_path / "rules"
    rules.mkdir()
    shop = "domain: {0}\ndescriptors: [{{key: {0}, rate_limit: {{unit: day, requests_per_unit: 3}}}}]\n"
    (rules / "a.yaml").write_text(shop.format("a"))
    node = new_cluster(1, "--rules", str(rules)).start()[0]
    awaits([node], "a:a")
    (rules / "b.yaml").write_text(shop.format("b"))
    awaits([node], "a:a", "b:b")
    (rules / "b.new").write_text(shop.format("c"))
    os.rename(rules / "b.new", rules / "b.yaml")
    awaits([node], "a:a", "c:c")
    (rules / "a.yaml").unlink()
    awaits([node], "c:c")
    (rules / "b.yaml").unlink()
    wait_for(lambda: "is a directory without a file" in node.log(), 30, "it says that there are none")
    assert in_force(node) == ["c:c"]


# A file is followed if that is wanted: who edits one beside a cluster compares and applies it by hand.
def test_a_file_is_followed_if_that_is_wanted(new_cluster, tmp_path):
    plain, watched, beside = (tmp_path / name for name in ("plain.yaml", "watched.yaml", "beside.yaml"))
    plain.write_text(RULE.format(1))
    watched.write_text(RULE.format(1))
    cluster = new_cluster(0)
    cluster.add("--rules", str(plain))
    cluster.add("--rules", str(watched), "--rules-watch", "on")
    cluster.start_all()
    awaits(cluster, "r1")
    plain.write_text(RULE.format(2))
    for number in (3, 4):  # each takes two looks
        beside.write_text(RULE.format(number))
        os.rename(beside, watched)
        awaits(cluster, f"r{number}")
    assert len(cluster[0].admin("rules.history")) == 3
    cluster[0].signal(signal.SIGHUP)
    awaits(cluster, "r2")


# Three mounts that arrive at different times: an older one undoes nothing, and what all have in the end is in force. An
# operator's edit in between stays until the source says something else.
def test_an_older_mount_undoes_nothing(new_cluster, tmp_path):
    mounts = [ConfigMap(tmp_path / f"mount{number}", a=RULE.format(1)) for number in range(3)]
    cluster = new_cluster(0)
    for mount in mounts:
        cluster.add("--rules", str(mount.folder))
    cluster.start_all()
    awaits(cluster, "r1")
    mounts[0].update(a=RULE.format(2))
    awaits(cluster, "r2")
    mounts[0].update(a=RULE.format(3))
    awaits(cluster, "r3")
    mounts[1].update(a=RULE.format(2))  # late
    wait_for(lambda: "not applied, for they were before" in cluster[1].log(), 30, "the second node lets it be")
    awaits(cluster, "r3")
    path = tmp_path / "own.yaml"
    path.write_text(RULE.format(9))
    assert Command("rules", "apply", str(path), "--yes", endpoints=cluster.endpoints).code == 0
    awaits(cluster, "r9")
    for number in (1, 2):
        mounts[number].update(a=RULE.format(3))
        wait_for(lambda node=cluster[number]: "another node has applied them already" in node.log(), 30, "it is known")
    awaits(cluster, "r9")
    mounts[2].update(a=RULE.format(4))
    awaits(cluster, "r4")
    for number, times in ((0, 1), (1, 2)):
        mounts[number].update(a=RULE.format(4))
        wait_for(lambda node=cluster[number], times=times: node.log().count("applied them already") == times, 30, "it is known")
    mounts[1].update(a=RULE.format(3))  # back, from the last edit
    awaits(cluster, "r3")
    versions = [row["version"] for row in cluster[0].admin("rules.history")]
    assert len(versions) == 6, versions


# A change while no majority is in reach is applied when there is one again.
def test_a_change_without_a_majority_is_applied_later(new_cluster, tmp_path):
    mount = ConfigMap(tmp_path / "mount", a=RULE.format(1))
    cluster = new_cluster(0)
    cluster.add("--rules", str(mount.folder))
    cluster.add()
    cluster.add()
    cluster.start()
    awaits(cluster, "r1")
    cluster[1].kill()
    cluster[2].kill()
    mount.update(a=RULE.format(2))
    wait_for(lambda: "are still to be applied" in cluster[0].log(), 60, "it waits")
    cluster[1].start()
    cluster[2].start()
    awaits(cluster, "r2")
    assert cluster[0].log().count("are still to be applied") == 1
