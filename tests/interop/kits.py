"""kits.py - packages of other languages, installed below the build folder for peers to be run.

A kit is a folder with packages of exact versions, which npm or pip put there: `build/interop/NAME`. It is made
once, and made anew when what it is made of changes. What hinders that is said in a sentence and fails the test:
a peer that was not run proves nothing.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil

from harness.releases import build_folder, run

ATTEMPTS = 3


@contextlib.contextmanager
def _made(name, parts):
    """(folder, whether it is still to be filled) of the kit; stamped when the block ends well."""
    folder = os.path.join(build_folder(), "interop", name)
    stamp = os.path.join(folder, "made")  # written last
    wanted = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may want it
        with contextlib.suppress(FileNotFoundError), open(stamp, encoding="ascii") as file:
            if file.read() == wanted:
                yield folder, False
                return
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        yield folder, True
        with open(stamp, "w", encoding="ascii") as file:
            file.write(wanted)


def _install(what, *command, **options):
    """Runs an installer; a registry may be out of reach for a moment."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return run(f"{what} cannot be installed", *command, **options)
        except AssertionError:
            if attempt == ATTEMPTS:
                raise


def npm(name, *packages):
    """The folder whose `node_modules` has these packages, each `NAME@VERSION`."""
    with _made(name, packages) as (folder, to_fill):
        if to_fill:
            _install(" ".join(packages), "npm", "install", "--no-audit", "--no-fund", "--no-update-notifier",
                     "--no-package-lock", "--ignore-scripts", *packages, cwd=folder)
    return folder


def pip(name, *packages):
    """The folder of a virtual environment that has these packages, each `NAME==VERSION`."""
    with _made(name, packages) as (folder, to_fill):
        if to_fill:
            run("a virtual environment cannot be made", "/usr/bin/python3", "-m", "venv", os.path.join(folder, "venv"))
            _install(" ".join(packages), os.path.join(folder, "venv/bin/python"), "-m", "pip", "install", "--quiet",
                     *packages)
    return os.path.join(folder, "venv")


def go(name, program, *modules):
    """The program of these lines of Go, built with these modules, each `MODULE@VERSION`."""
    with _made(name, (program, *modules)) as (folder, to_fill):
        if to_fill:
            with open(os.path.join(folder, "main.go"), "w", encoding="utf-8") as file:
                file.write(program)
            run("a Go module cannot be made", "go", "mod", "init", "peer", cwd=folder)
            _install(" ".join(modules), "go", "get", *modules, cwd=folder)
            _install(" ".join(modules), "go", "mod", "tidy", cwd=folder)
            run("the program in Go cannot be built", "go", "build", "-o", "peer", ".", cwd=folder)
    return os.path.join(folder, "peer")


def go_tool(name, package):
    """The program that this package of Go is, `PATH@VERSION`."""
    with _made(name, (package,)) as (folder, to_fill):
        if to_fill:
            _install(package, "go", "install", package, env=os.environ | {"GOBIN": folder, "GOFLAGS": "-mod=mod"})
    return os.path.join(folder, os.path.basename(package.split("@")[0]))


def maven(name, program, *artifacts):
    """A command that runs the class Peer of these lines of Java, with these artifacts, each `GROUP:NAME:VERSION`."""
    with _made(name, (program, *artifacts)) as (folder, to_fill):
        if to_fill:
            with open(os.path.join(folder, "Peer.java"), "w", encoding="utf-8") as file:
                file.write(program)
            needs = "".join("<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
                            .format(*artifact.split(":")) for artifact in artifacts)
            with open(os.path.join(folder, "pom.xml"), "w", encoding="utf-8") as file:
                file.write("<project><modelVersion>4.0.0</modelVersion><groupId>peer</groupId><artifactId>peer</artifactId>"
                           f"<version>1</version><dependencies>{needs}</dependencies></project>")
            _install(" ".join(artifacts), "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars",
                     cwd=folder)
            run("the program in Java cannot be built", "javac", "-cp", "jars/*", "Peer.java", cwd=folder)
    return ["java", "-cp", f"{folder}:{folder}/jars/*", "Peer"]
