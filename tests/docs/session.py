"""session.py - the `sh` blocks of one page, run in order as a reader would who follows the page.

A page is one shell in one empty folder, which looks like the root of the tree with what was built:
every entry of the root is linked there, and `build` holds the programs under test. Blocks of other
kinds that name a file (`file=NAME`) are that file from there on. The shell has a network and
processes of its own (unshare), so a page may use the usual ports, and nothing outlives it.

The programs are on its path, as they are once installed.

1. A command that fails ends the page (bash -e), and is reported with the line of its block.
2. A page ends every node that it started; one that is left over fails it.
3. What follows a block as `output` is what the block printed; `...` in a line stands for
   anything in it, and a line of `...` alone for any lines. What the shell says of a job that was killed
   comes when it likes, and is left out.
"""

import collections
import os
import re
import signal
import subprocess
import time

import markdown

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIMEOUT_S = 90
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
JOB_NOTICE = re.compile(r"^bash: line \d+: +\d+ Killed .*\n", re.MULTILINE)
LEFT_OVER = "if left=$(pgrep -l 'tidegated'); then echo \"still runs at the end of the page: $left\"; exit 1; fi\n"

# `ran`: how many sh blocks were run; `compared`: how many outputs; `failure`: what went wrong, or None.
Result = collections.namedtuple("Result", "path ran compared seconds failure")


def build_folder():
    return os.path.join(ROOT, os.environ.get("TIDEGATE_BUILD", "build"))


def has_session(text):
    return any(block.kind == "sh" for block in markdown.blocks(text))


def matches(expected, printed):
    """Whether what was printed is what is expected; lines of a pattern are compared without blanks at their ends."""
    parts = []
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            parts.append("[^\n]*".join(re.escape(piece) for piece in line.rstrip().split("...")) + r"[ \t]*\n")
    return re.fullmatch("".join(parts), printed if printed.endswith("\n") or not printed else printed + "\n") is not None


def steps_of(text, exempt):
    """The blocks of a page that its session is made of: what an exempt one would print is none of them."""
    steps, left_out = [], False
    for block in markdown.blocks(text):
        if block.kind == "sh":
            left_out = markdown.word_value(block, "name") in exempt
        if not (left_out and block.kind in ("sh", "output")):
            steps.append(block)
    return steps


def script_of(steps, outputs):
    """The shell script of a page; each block prints into a file of its own in the folder `outputs`."""
    script = ["set -eu -o pipefail", "ip link set lo up"]
    for number, step in enumerate(steps):
        name = markdown.word_value(step, "file")
        if name:
            held = os.path.join(outputs, f"file{number}")
            with open(held, "w", encoding="utf-8") as file:
                file.write(step.text)
            script.append(f"mkdir -p \"$(dirname '{name}')\"; cp '{held}' '{name}'")
        if step.kind == "sh":
            script += [f"echo {number} >'{outputs}/at'", f"exec >'{outputs}/{number}' 2>&1", step.text]
    script += [f"echo end >'{outputs}/at'", f"exec >'{outputs}/end' 2>&1", LEFT_OVER]
    return "\n".join(script)


def folder_of(scratch, modules=None):
    """An empty folder that looks like the root of the tree; `modules` are packages of Node.js that it finds."""
    folder = os.path.join(scratch, "tidegate")
    os.mkdir(folder)
    for name in os.listdir(ROOT):
        if not name.startswith(".") and name not in ("build", "tidegate-data"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.symlink(build_folder(), os.path.join(folder, "build"))
    if modules:
        os.symlink(modules, os.path.join(folder, "node_modules"))
    return folder


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def run_script(script, folder, programs=""):
    """Runs a page's script in spaces of its own; returns its status, or None when it had no end."""
    own = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *own, "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script]
    path = ":".join([f"{folder}/build", *filter(None, [programs]), PATH])
    environment = {"PATH": path, "HOME": folder, "LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True) as process:
        try:
            said = process.communicate(timeout=TIMEOUT_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
    return process.returncode, said


def run(path, text, scratch, exempt=(), programs="", modules=None):
    """Runs the sh blocks of a page and compares what they print.

    `programs` is a folder that comes first on the path after the product's, `modules` one with packages of Node.js."""
    steps = steps_of(text, exempt)
    outputs = os.path.join(scratch, "outputs")
    os.mkdir(outputs)
    start = time.monotonic()
    status, said = run_script(script_of(steps, outputs), folder_of(scratch, modules), programs)
    ran = [n for n, step in enumerate(steps) if step.kind == "sh"]
    failure, compared = None, 0
    if status != 0:
        at = read(os.path.join(outputs, "at")).strip()
        where = f"{path}:{steps[int(at)].line}" if at.isdigit() else f"{path}: its end"
        why = f"has no end after {TIMEOUT_S} s" if status is None else f"ended with status {status}"
        failure = f"{where}: {why}; it printed:\n{read(os.path.join(outputs, at))[-3000:]}{said}"
    for number, step in enumerate(steps):
        if step.kind != "output" or failure:
            continue
        before = [n for n in ran if n < number]
        printed = JOB_NOTICE.sub("", read(os.path.join(outputs, str(before[-1])))) if before else ""
        compared += 1
        if not matches(step.text, printed):
            failure = f"{path}:{step.line}: expected\n{step.text}\nbut the block before printed\n{printed}"
    return Result(path, len(ran), compared, time.monotonic() - start, failure)
