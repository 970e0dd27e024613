#!/usr/bin/python3
"""lint.py - checks what the compiler does not: layers, purity, sizes, comments, format.

Usage: tests/lint/lint.py [--root DIR] [--build DIR] [--only RULE[,RULE]] [--list]

Each broken rule prints `file:line: rule: message`; then every rule is listed as ok or
FAILED, so that a rule that did not run cannot be mistaken for one that passed. The exit
status is 1 if any rule is broken.

1. A rule is one function of a Tree that yields Findings; RULES lists them all.
2. Nothing is exempt by name. What a rule leaves alone, its own comment says.
3. C text is looked at with comments and string literals blanked, so that prose about
   a banned call is not one; line numbers stay.
"""

import argparse
import collections
import concurrent.futures
import os
import re
import runpy
import subprocess
import sys

import invariants
import prose
import structure

FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70

Finding = collections.namedtuple("Finding", "path line message")

TOP_LEVEL = {"base", "ring", "gossip", "storage", "client", "node", "tests", "deploy",
             "Makefile", "README.md", "LICENSE"}
# What running the product and the build leaves behind, as .gitignore says too.
TOP_LEVEL_IGNORED = {"build", "tidegate-data"}
DATA_FOLDERS = ("corpus", "data", "__pycache__")

# A folder may include itself and what is named here, nothing else. Public headers of the
# client are `client/include`. `client` and `node` themselves hold only a main.
LAYERS = {
    "base": [],
    "ring": ["base"],
    "gossip": ["base"],
    "storage": ["base"],
    "client/include": [],
    "client/protocol": ["base"],
    "client/screen": ["base"],
    "client/lib": ["base", "client/protocol", "client/include"],
    # What rules would do to a log is answered without a node, by the code that nodes run.
    "client/replay": ["base", "client/protocol", "node/limit", "node/policy"],
    "client/cli": ["base", "client/protocol", "client/include", "client/replay", "client/screen",
                   "node/policy", "node/sources", "node/zones"],
    "client/examples": ["client/include"],
    "node/limit": ["base"],
    "node/policy": ["base", "client/protocol", "node/limit"],
    "node/sources": ["base", "node/policy"],
    "node/zones": ["base", "node/policy"],
    "node/cluster": ["base", "ring", "gossip", "client/protocol", "node/limit", "node/policy"],
    "node/gateway": ["base", "client/protocol", "client/screen", "node/limit", "node/policy"],
    "node/runtime": ["base", "ring", "gossip", "storage", "client/protocol", "node/limit",
                     "node/policy", "node/cluster", "node/gateway", "node/sources", "node/zones"],
    # Documents are made of the tables of both programs.
    "deploy/manual": ["base", "client/cli", "node/cluster", "node/policy", "node/runtime"],
    "node": ["base", "ring", "gossip", "storage", "client/protocol", "node/limit", "node/policy",
             "node/cluster", "node/gateway", "node/runtime", "node/sources", "node/zones"],
}

# Folders that are cut in rooms, from the floor up: a room may include, and call, those before it and
# nothing behind it. Who may include the folder may include each of its rooms.
HOUSES = {
    "client/cli": ("output", "arguments", "session", "status", "replay", "commands"),
    "node/limit": ("algorithms", "table", "engine"),
    "node/policy": ("model", "readers", "index", "descriptors", "rights", "people", "compile"),
    "node/cluster": ("clock", "model", "metrics", "wire", "dedup", "consensus", "configstore", "usage", "peer",
                     "partition", "pending", "replication", "reconcile", "quorum", "writeback", "region",
                     "lease", "admission", "election", "request", "shard", "control", "conditions", "exposition",
                     "operator"),
    "node/runtime": ("system", "config", "telemetry", "disk", "shard", "control", "start"),
}
# `control`, `conditions` and `operator` of node/cluster stand beside the shard's rooms: they call none of these.
BESIDE = {"node/cluster/control": ("peer", "shard"), "node/cluster/conditions": ("peer", "shard"),
          "node/cluster/exposition": ("peer", "shard"),
          "node/cluster/operator": ("peer", "shard")}
# shard_state.h puts all rooms of node/cluster together, so each may include it.
UMBRELLA = "node/cluster"
DEBTS = "tests/lint/debts.txt"


def room_of(path):
    """The room that a file lies in, as (folder of the house, number from the floor up), or None."""
    house, _, room = os.path.dirname(path).rpartition("/")
    return (house, HOUSES[house].index(room)) if room in HOUSES.get(house, ()) else None


def may_know(mine, theirs):
    """Whether a file in folder `mine` may include one in folder `theirs`."""
    here, there = room_of(mine + "/"), room_of(theirs + "/")
    if mine == theirs or (here and theirs == UMBRELLA == here[0]):
        return True
    if here and there and here[0] == there[0]:
        return there[1] < here[1]
    if there and there[0] == mine:
        return True
    return (there[0] if there else theirs) in LAYERS[here[0] if here else mine]


# A library's header and the folders that may know it.
LIBRARY_OWNERS = [
    (re.compile(r"^(zmq|czmq|zmq_utils|zauth|zsock)\.h$"), ("node/runtime", "client/lib", "tests"), "ZeroMQ"),
    (re.compile(r"^curl/.*$"), ("node/runtime/telemetry", "tests"), "libcurl"),
    (re.compile(r"^lmdb\.h$"), ("storage", "tests"), "LMDB"),
    (re.compile(r"^(microhttpd\.h|nghttp2/.*|hiredis/.*)$"), ("node/gateway", "node/runtime", "tests"), "HTTP and RESP"),
]

# Libraries whose own headers lie outside the compiler's default path.
PACKAGES = ["libzmq", "libczmq", "lmdb", "libuv", "libsodium", "libsystemd"]

PURE_FOLDERS = ("ring", "gossip", "node/limit", "node/policy", "node/cluster", "node/gateway", "client/protocol",
                "client/replay", "client/screen")
# Not libyaml: reading rules from a string is deterministic, and no step does it.
IMPURE_SYMBOL = re.compile(
    r"^(malloc|calloc|realloc|reallocarray|free|strdup|strndup|posix_memalign|aligned_alloc|mmap|munmap|brk|sbrk"
    r"|time|clock|clock_.*|gettimeofday|localtime.*|gmtime.*|mktime|strftime|nanosleep|sleep|usleep|alarm"
    r"|timer_.*|timerfd_.*|setitimer"
    r"|rand|srand|rand_r|random|srandom|drand48|lrand48|getrandom|getentropy|randombytes.*"
    r"|socket|socketpair|bind|listen|accept|accept4|connect|send|sendto|sendmsg|sendmmsg|recv|recvfrom|recvmsg"
    r"|recvmmsg|poll|ppoll|select|pselect|epoll_.*|getaddrinfo|freeaddrinfo|inet_addr|shutdown|setsockopt"
    r"|open|open64|openat|creat|close|read|pread.*|write|pwrite.*|fsync|fdatasync|unlink|rename|stat|fstat|lseek.*"
    r"|fopen.*|fdopen|fclose|fread|fwrite|fputs|fputc|putc|puts|putchar|fgets|fgetc|getc|fflush|printf|fprintf"
    r"|vprintf|vfprintf|dprintf|vdprintf|perror|stdin|stdout|stderr|scanf|fscanf|syslog|vsyslog"
    r"|pthread_.*|thrd_.*|mtx_.*|cnd_.*|sem_.*|fork|vfork|clone|exec.*|wait|waitpid|kill|raise|signal|sigaction"
    r"|getenv|secure_getenv|setenv|putenv|exit|_exit|_Exit|quick_exit|abort|atexit|syscall|ioctl|fcntl.*|pipe|pipe2"
    r"|system|popen|longjmp|_setjmp|setjmp|siglongjmp"
    r"|zmq_.*|zsock_.*|z[a-z]+_new|mdb_.*|uv_.*|sd_.*|alloc_heap"
    r"|__(printf|fprintf|vfprintf|vprintf|dprintf|read|recv|recvfrom|poll|fread|fgets|open|longjmp)_chk)$")

BANNED_CALLS = {
    "strcpy": "copy with a bound", "strcat": "write with a bound", "sprintf": "use snprintf",
    "vsprintf": "use vsnprintf", "gets": "read with a bound", "strtok": "keep the position yourself",
    "atoi": "use base/quantity.h, which reports errors", "atol": "use base/quantity.h, which reports errors",
    "atoll": "use base/quantity.h, which reports errors", "atof": "use base/quantity.h, which reports errors",
    "alloca": "bound the buffer or allocate at init", "system": "no shell", "popen": "no shell",
    "rand": "use base/random.h with a seed", "srand": "use base/random.h with a seed",
    "random": "use base/random.h with a seed", "usleep": "wait for a condition with a deadline",
    "sleep": "wait for a condition with a deadline", "setjmp": "return an error",
    "longjmp": "return an error", "tmpnam": "use mkstemp", "mktemp": "use mkstemp",
    "__builtin_prefetch": "use base/prefetch.h, which the compiler does not drop",
}

CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED_CALLS) + r")\s*\(")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

# A numbered rule in a comment, as `TABLE-1  One place counts a key.`, and one that is not at the beginning of its line.
RULE_BEGINS = re.compile(r"( \* [A-Z]+-\d+ {2,3})\S")
RULE_WITHIN = re.compile(r"^ \* .*[.;:] [A-Z]+-\d+ {2,3}\S")


def blank(text, keep_strings=False):
    """`text` with comments (and string and character literals) turned into spaces."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)

    def erase(match):
        piece = match.group(0)
        if piece[0] in "\"'":
            if keep_strings:
                return piece
            return piece[0] + re.sub(r"[^\n]", " ", piece[1:-1]) + piece[-1]
        return re.sub(r"[^\n]", " ", piece)

    return pattern.sub(erase, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Tree:
    """The files under a root, read once. Paths are relative to it."""

    def __init__(self, root, build):
        self.root = root
        self.build = os.path.join(root, build)
        self.folders = []
        self.files = []
        self.texts = {}
        self.symbols = None  # see symbols_of
        for folder, names, files in os.walk(root):
            here = os.path.relpath(folder, root)
            here = "" if here == "." else here
            names[:] = sorted(n for n in names if not n.startswith(".") and n not in DATA_FOLDERS
                              and not (here == "" and n in TOP_LEVEL_IGNORED))
            self.folders.append(here)
            self.files += [os.path.join(here, f) for f in sorted(files)]
        self.sources = [f for f in self.files if f.endswith((".c", ".h"))]

    def text(self, path):
        if path not in self.texts:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                self.texts[path] = file.read()
        return self.texts[path]

    def object_of(self, path):
        """Where the object of a .c file is, once it is built."""
        return os.path.join(self.build, "obj", path[:-2] + ".o")

    def includes(self, path):
        """(line, quote, name) of each include directive of a C file."""
        text = blank(self.text(path), keep_strings=True)
        return [(line_of(text, m.start(1)), m.group(1), m.group(2)) for m in INCLUDE.finditer(text)]


def layer_of(path):
    """The room, or else the entry of LAYERS, a file belongs to: the longest that holds it; None outside."""
    folder = os.path.dirname(path)
    if room_of(path):
        return folder
    while folder and folder not in LAYERS:
        folder = os.path.dirname(folder)
    return folder or None


def in_folder(path, folder):
    return path.startswith(folder + "/")


# --- rules -----------------------------------------------------------------------------------


def debts_of(tree):
    """{(folder, folder, symbol): line} of what DEBTS lists."""
    debts = {}
    if os.path.exists(os.path.join(tree.root, DEBTS)):
        for number, line in enumerate(tree.text(DEBTS).splitlines(), 1):
            words = line.split("#")[0].split()
            if len(words) == 4 and words[1] == "->":
                debts[(words[0], words[2], words[3])] = number
    return debts


def layers(tree):
    """An include points at its own folder or at one that LAYERS allows; tests may include all.

    A source of a room may also include the header of one that it has a debt to.
    """
    owed = {(mine, theirs) for mine, theirs, _ in debts_of(tree)}
    for path in tree.sources:
        if in_folder(path, "tests"):
            continue
        mine = layer_of(path)
        if mine is None:
            yield Finding(path, 1, "lies in no folder of the architecture")
            continue
        for line, quote, name in tree.includes(path):
            theirs = layer_of(name) if quote == '"' else None
            if quote == '"' and theirs is None:
                yield Finding(path, line, f'"{name}" names no folder; write includes from the root')
            elif theirs and path.endswith(".c") and (mine, theirs) in owed:
                continue
            elif theirs and not may_know(mine, theirs):
                yield Finding(path, line, f"{mine} may not include {theirs} ({name})")


def include_exists(tree):
    """An include in quotes is written from the root and names a file that is there."""
    for path in tree.sources:
        for line, quote, name in tree.includes(path):
            if quote == '"' and not os.path.exists(os.path.join(tree.root, name)):
                yield Finding(path, line, f'"{name}" is no file from the root')


def find_cycle(graph):
    """One cycle of `graph` (node -> nodes) as a list whose last element is its first, or None."""
    done = set()
    for start in sorted(graph):
        trail, pending = [start], [iter(sorted(graph[start]))]
        while trail and start not in done:
            onward = next(pending[-1], None)
            if onward is None:
                done.add(trail.pop())
                pending.pop()
            elif onward in trail:
                return trail[trail.index(onward):] + [onward]
            elif onward not in done:
                trail.append(onward)
                pending.append(iter(sorted(graph.get(onward, ()))))
    return None


def acyclic(tree):
    """Neither files nor folders include each other in a circle, but for shard_state.h and debts."""
    files = {p: {n for _, q, n in tree.includes(p) if q == '"'} for p in tree.sources}
    owed = {(mine, theirs) for mine, theirs, _ in debts_of(tree)}
    folders = {}
    for path, names in files.items():
        if in_folder(path, "tests"):
            continue
        mine = os.path.dirname(path)
        umbrella = UMBRELLA if room_of(path) else None
        folders.setdefault(mine, set()).update(
            os.path.dirname(n) for n in names if os.path.dirname(n) not in (mine, umbrella)
            and (mine, os.path.dirname(n)) not in owed)
    for graph, kind in ((files, "files"), (folders, "folders")):
        cycle = find_cycle(graph)
        if cycle:
            yield Finding(cycle[0], 1, f"{kind} include each other: {' -> '.join(cycle)}")


def libraries(tree):
    """Only their owners include ZeroMQ's and LMDB's headers."""
    for path in tree.sources:
        for line, quote, name in tree.includes(path):
            for header, owners, library in LIBRARY_OWNERS:
                if quote == "<" and header.match(name) and not any(in_folder(path, o) for o in owners):
                    yield Finding(path, line, f"only {', '.join(owners)} know {library} ({name})")


def symbols_of(tree, source):
    """(defined, undefined) global symbols of the object of a source, or None where there is no object.

    One `nm` reads all objects: there are hundreds, and some rules want them all.
    """
    if tree.symbols is None:
        objects = {tree.object_of(p): p for p in tree.sources if p.endswith(".c") and os.path.exists(tree.object_of(p))}
        tree.symbols = {path: ([], []) for path in objects.values()}
        listing = subprocess.run(["nm", "-A", "-g", *objects], capture_output=True, text=True, check=True).stdout \
            if objects else ""
        for line in listing.splitlines():
            built, _, said = line.partition(":")
            *_, kind, symbol = said.split()
            tree.symbols[objects[built]][kind in "Uwv"].append(symbol.split("@")[0])
    return tree.symbols.get(source)


def purity(tree):
    """Objects of pure folders refer to no clock, socket, thread, file, heap or random source.

    Each source must have its object: a source that was not built would pass unseen.
    """
    for path in tree.sources:
        folder = os.path.dirname(path)
        if not any(folder == pure or folder.startswith(pure + "/") for pure in PURE_FOLDERS) \
                or not path.endswith(".c"):
            continue
        symbols = symbols_of(tree, path)
        if symbols is None:
            yield Finding(path, 1, f"has no object in {os.path.relpath(tree.build, tree.root)}; build it first")
            continue
        for symbol in symbols[1]:
            if IMPURE_SYMBOL.match(symbol):
                yield Finding(path, 1, f"{folder} is pure but refers to {symbol}")


def upward_calls(tree):
    """{(folder, folder, symbol): path} of what a room calls in one above it, or beside it."""
    objects = {path: symbols_of(tree, path) for path in tree.sources if room_of(path) and symbols_of(tree, path)}
    home = {symbol: path for path, (defined, _) in objects.items() for symbol in defined}
    found = {}
    for path, (_, undefined) in objects.items():
        house, number = room_of(path)
        first, last = BESIDE.get(os.path.dirname(path), (None, None))
        for symbol in undefined:
            theirs = home.get(symbol, path)
            if room_of(theirs)[0] != house:
                continue
            at = room_of(theirs)[1]
            beside = first and HOUSES[house].index(first) <= at <= HOUSES[house].index(last)
            if at > number or beside:
                found.setdefault((os.path.dirname(path), os.path.dirname(theirs), symbol), path)
    return found


def calls(tree):
    """A room calls none above it, but for the debts that are listed (`nm`)."""
    debts = debts_of(tree)
    for number, line in enumerate(tree.text(DEBTS).splitlines() if debts else [], 1):
        words = line.split("#")[0].split()
        if words and words[0] not in structure.RATCHETS and number not in debts.values():
            yield Finding(DEBTS, number, "expected, and once: folder -> folder symbol, or a rule and what may stay")
    found = upward_calls(tree)
    for (mine, theirs, symbol), path in sorted(found.items()):
        if (mine, theirs, symbol) not in debts:
            yield Finding(path, 1, f"{mine} may not call {theirs} ({symbol})")
    for debt, number in debts.items():
        if debt not in found and any(os.path.dirname(p) == debt[0] for p in tree.sources):
            yield Finding(DEBTS, number, f"{debt[0]} calls {debt[2]} no more: the debt is paid, take it out")


def banned(tree):
    """No call that overflows, hides errors, sleeps as synchronisation, starts a shell or may be dropped."""
    for path in tree.sources:
        if path == "base/prefetch.h":
            continue
        text = blank(tree.text(path))
        for match in CALL.finditer(text):
            yield Finding(path, line_of(text, match.start()),
                          f"{match.group(1)} is banned: {BANNED_CALLS[match.group(1)]}")


def file_length(tree):
    """A C file has at most FILE_LINES_MAX lines."""
    for path in tree.sources:
        lines = tree.text(path).count("\n")
        if lines > FILE_LINES_MAX:
            yield Finding(path, FILE_LINES_MAX, f"has {lines} lines, at most {FILE_LINES_MAX}")


ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")


def functions_of(text):
    """(name, first line, lines) of each function: a brace block at depth 0 that follows `)`.

    Lines count from the opening brace to the closing one.
    """
    plain = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", lambda m: re.sub(r"[^\n]", " ", m.group(0)), blank(text), flags=re.MULTILINE)
    depth, start, head = 0, None, ""
    last_end = 0
    for match in re.finditer(r"[{};]", plain):
        mark, at = match.group(0), match.start()
        if mark == ";":
            if depth == 0:
                last_end = at + 1
            continue
        if mark == "{":
            if depth == 0:
                head = ATTRIBUTE.sub(" ", plain[last_end:at])
                start = at if re.search(r"\)[\s\w()]*$", head) and "=" not in head else None
            depth += 1
            continue
        depth = max(depth - 1, 0)
        if depth == 0:
            if start is not None:
                name = re.search(r"(\w+)\s*\(", head)
                yield (name.group(1) if name else "?", line_of(plain, start),
                       line_of(plain, at) - line_of(plain, start) + 1)
            last_end = at + 1


def function_length(tree):
    """A function has at most FUNCTION_LINES_MAX lines."""
    for path in tree.sources:
        for name, line, lines in functions_of(tree.text(path)):
            if lines > FUNCTION_LINES_MAX:
                yield Finding(path, line, f"{name} has {lines} lines, at most {FUNCTION_LINES_MAX}")


def opening_comment(tree):
    """Every C file opens with a comment that says what it is for."""
    for path in tree.sources:
        if not re.match(r"/\*\s*\S+", tree.text(path)):
            yield Finding(path, 1, "opens without a comment")
        elif os.path.basename(path) not in tree.text(path).split("\n", 1)[0]:
            yield Finding(path, 1, f"its first line does not name {os.path.basename(path)}")


def lists_kept(tree):
    """What a numbered rule of a comment says stands below its first word, and the next one begins a line.

    The formatter runs a list together where it breaks a line that is too long.
    """
    for path in tree.sources:
        hanging = None
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            if RULE_WITHIN.search(line):
                yield Finding(path, number, "a numbered rule begins within the line")
            elif RULE_BEGINS.match(line):
                hanging = len(RULE_BEGINS.match(line).group(1))
            elif hanging and re.match(r" \* +\S", line) and not line.startswith(" *".ljust(hanging)):
                yield Finding(path, number, "is to be indented as the rule that it goes on with")
                hanging = None
            elif not line.startswith(" *  "):
                hanging = None


def compile_alone(tree, path, flags):
    command = [os.environ.get("CC", "gcc"), "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
               "-fsyntax-only", "-I.", *flags, "-x", "c", path]
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
    return path, done.returncode, done.stderr


def header_alone(tree):
    """Every header compiles without anything included before it."""
    headers = [p for p in tree.sources if p.endswith(".h")]
    flags = subprocess.run(["pkg-config", "--cflags", *PACKAGES], capture_output=True, text=True,
                           check=True).stdout.split()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for path, status, errors in pool.map(lambda p: compile_alone(tree, p, flags), headers):
            if status != 0:
                first = next((l for l in errors.splitlines() if "error" in l), errors.strip())
                yield Finding(path, 1, f"does not compile alone: {first}")


def formatted(tree):
    """clang-format has nothing to change."""
    shares = os.cpu_count() or 2
    command = ["clang-format", "--dry-run", "-Werror", "--ferror-limit=3"]
    with concurrent.futures.ThreadPoolExecutor(shares) as pool:
        runs = list(pool.map(lambda share: subprocess.run([*command, *share], cwd=tree.root, capture_output=True,
                                                          text=True, check=False),
                             filter(None, (tree.sources[i::shares] for i in range(shares)))))
    for done in runs:
        seen = set()
        for path, line in re.findall(r"^(\S+?):(\d+):\d+: error:", done.stderr, re.MULTILINE):
            if path not in seen:
                seen.add(path)
                yield Finding(path, int(line), "clang-format would change it")
        if done.returncode != 0 and not seen:
            yield Finding(".clang-format", 1, f"clang-format failed: {done.stderr.strip()[:200]}")


def finished(tree):
    """Nothing is marked as unfinished, in any text file but this checker and its test."""
    for path in tree.files:
        if in_folder(path, "tests/lint"):
            continue
        text = tree.text(path)
        for match in UNFINISHED.finditer(text):
            yield Finding(path, line_of(text, match.start()), f"{match.group(1)} marks unfinished work")


def top_level(tree):
    """The root holds the folders of the architecture and nothing else, dot-files aside."""
    for name in sorted(os.listdir(tree.root)):
        if name not in TOP_LEVEL | TOP_LEVEL_IGNORED and not name.startswith("."):
            yield Finding(name, 1, "does not belong in the root")


def readme(tree):
    """Every folder that holds source or scripts says in a README.md what it is."""
    for folder in tree.folders:
        holds = [f for f in tree.files if os.path.dirname(f) == folder]
        if holds and os.path.join(folder, "README.md") not in tree.files:
            yield Finding(os.path.join(folder, "README.md"), 1, "is missing")


def mutations(tree):
    """Each mistake that tests/sim/mutants makes has the place where it is made, once."""
    path = "tests/sim/mutants"
    full = os.path.join(tree.root, path)
    if not os.path.exists(full):
        return
    for name, first, *rest in runpy.run_path(full)["MUTATIONS"]:
        for target, exact, _ in first if isinstance(first, list) else [(first, *rest[:2])]:
            found = tree.text(target).count(exact) if target in tree.files else 0
            if found != 1:
                at = line_of(tree.text(path), tree.text(path).find(name))
                yield Finding(path, at, f'"{name}": its text is {found} times in {target}, not once')


RULES = {
    "layers": layers,
    "include-exists": include_exists,
    "acyclic": acyclic,
    "libraries": libraries,
    "purity": purity,
    "calls": calls,
    "banned": banned,
    "file-length": file_length,
    "function-length": function_length,
    "opening-comment": opening_comment,
    "lists": lists_kept,
    "header-alone": header_alone,
    "format": formatted,
    "finished": finished,
    "top-level": top_level,
    "readme": readme,
    "mutations": mutations,
    **prose.rules(Finding),
    **invariants.rules(Finding),
    **structure.rules(Finding, lambda folder: room_of(folder + "/")[0] if room_of(folder + "/") else folder, blank,
                      functions_of, symbols_of, DEBTS),
}


def main():
    parser = argparse.ArgumentParser(description="Checks what the compiler does not.")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    parser.add_argument("--build", default="build/release", help="where obj/ lies, for the purity rule")
    parser.add_argument("--only", default=",".join(RULES), help="rules to run")
    parser.add_argument("--list", action="store_true", help="list the rules and stop")
    options = parser.parse_args()
    if options.list:
        for name, rule in RULES.items():
            print(f"{name:16} {rule.__doc__.splitlines()[0]}")
        return 0
    names = options.only.split(",")
    unknown = [n for n in names if n not in RULES]
    if unknown:
        parser.error(f"no rule {', '.join(unknown)}")

    tree = Tree(os.path.realpath(options.root), options.build)
    counts = {}
    for name in names:
        findings = list(RULES[name](tree))
        counts[name] = len(findings)
        for finding in findings:
            print(f"{finding.path}:{finding.line}: {name}: {finding.message}")
    for name in names:
        verdict = "ok    " if counts[name] == 0 else "FAILED"
        print(f"  {verdict}  {name:16} {counts[name] or ''}".rstrip())
    skipped = [n for n in RULES if n not in names]
    if skipped:
        print(f"  not run: {', '.join(skipped)}")
    return 1 if any(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
