"""releases - the programs of releases that were made before, built from this repository's own history.

`deploy/releases` names each release's commit. It is checked out as a worktree in a folder of its own below the
build folder, built there, and the worktree is taken away again; what was built stays, for the next run. What is
missing for that is said in a sentence, and fails the test: an upgrade that was not tried is none that works.
"""

import collections
import contextlib
import fcntl
import os
import re
import shutil
import subprocess

from .waiting import VARIANTS

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
LIST = "deploy/releases"
PROGRAMS = ("tidegated", "tidegate")
BUILD_S = 900
SAID = 4000  # characters of what a program said that failed

Release = collections.namedtuple("Release", "version commit date")


def read(text):
    """The releases of a file as deploy/releases, oldest first."""
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for words in lines:
        assert len(words) == 3 and re.fullmatch(r"[0-9a-f]{40}", words[1]), \
            f"{LIST}: found {' '.join(words)!r}, expected VERSION COMMIT DATE"
    assert lines, f"{LIST} names no release"
    return [Release(*words) for words in lines]


def last():
    with open(os.path.join(ROOT, LIST), encoding="utf-8") as file:
        return read(file.read())[-1]


def run(what, *command, **options):
    """What a program wrote; a sentence and what it said, if it failed or is not there."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              text=True, check=False, timeout=BUILD_S, **options)
    except FileNotFoundError:
        raise AssertionError(f"{what}: {command[0]} is not installed") from None
    assert done.returncode == 0, f"{what}: {' '.join(command)} failed:\n{done.stdout[-SAID:]}"
    return done.stdout


def git(what, *arguments, root=ROOT):
    return run(what, "git", "-C", root, *arguments)


def require_commit(release, root=ROOT):
    """Fails with the way out if the release's commit is not in this repository."""
    what = f"release {release.version} cannot be built"
    git(what, "rev-parse", "--git-dir", root=root)
    known = subprocess.run(["git", "-C", root, "cat-file", "-e", f"{release.commit}^{{commit}}"], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    if known:
        return
    shallow = git(what, "rev-parse", "--is-shallow-repository", root=root).strip() == "true"
    raise AssertionError(f"{what}: its commit {release.commit} is not in this repository" +
                         (", which is a shallow clone: run 'git fetch --unshallow'" if shallow else ""))


def build_folder():
    """The folder that holds the variants' folders, one of which TIDEGATE_BUILD may be."""
    folder = os.path.abspath(os.environ.get("TIDEGATE_BUILD") or "build")
    return os.path.dirname(folder) if os.path.basename(folder) in {*VARIANTS, "release"} else folder


@contextlib.contextmanager
def checked_out(release, tree):
    """The release's files in the folder `tree` while this lasts."""
    what = f"release {release.version} cannot be checked out"
    remove(tree)
    git(what, "worktree", "add", "--detach", "--force", tree, release.commit)
    try:
        yield
    finally:
        remove(tree)


def remove(tree):
    shutil.rmtree(tree, ignore_errors=True)
    git("worktrees cannot be listed", "worktree", "prune")


def programs_of(release):
    """The folder with the programs of a release, built if they are not there yet."""
    folder = os.path.join(build_folder(), "releases", release.version)
    made = os.path.join(folder, "release")
    stamp = os.path.join(folder, "commit")  # written last
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it
        if os.path.exists(stamp):
            with open(stamp, encoding="ascii") as file:
                if file.read() == release.commit and all(os.path.exists(os.path.join(made, p)) for p in PROGRAMS):
                    return made
            os.remove(stamp)
        require_commit(release)
        # Its own make: neither the flags nor the jobs of one that may be running here.
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD", "VARIANT", "CC", "CFLAGS", "LDFLAGS")}
        with checked_out(release, os.path.join(folder, "tree")):
            run(f"release {release.version} cannot be built", "make", "-C", os.path.join(folder, "tree"),
                f"BUILD={folder}", "WERROR=", *(os.path.join(made, program) for program in PROGRAMS), env=environment)
        shutil.rmtree(os.path.join(made, "obj"), ignore_errors=True)
        with open(stamp, "w", encoding="ascii") as file:
            file.write(release.commit)
    return made
