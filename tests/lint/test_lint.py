"""test_lint.py - proves that each rule of lint.py catches what it is for.

Each case plants one violation in a tree that is otherwise clean and expects exactly the
rule named to object, at the file planted; a rule without a case fails the last test.
"""

import os
import subprocess
import sys

import pytest

LINT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lint.py")
FORMAT = os.path.join(os.path.dirname(LINT), "../../.clang-format")

CLEAN = {
    "Makefile": "all:\n",
    "README.md": "# map\n",
    "base/README.md": "# base\n",
    "base/error.h": "/* error.h - errors. */\n#ifndef E\n#define E\nint error_of(int code);\n#endif\n",
    "ring/README.md": "# ring\n",
    "ring/ring.h": '/* ring.h - the ring. */\n#ifndef R\n#define R\n#include "base/error.h"\n#endif\n',
    "ring/ring.c": '/* ring.c - no call of malloc() or sleep() here. */\n#include "ring/ring.h"\n\n'
                   "int error_of(int code)\n{\n    return code;\n}\n",
}


def lint(*arguments):
    """Returns (status, output)."""
    done = subprocess.run([sys.executable, LINT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def plant(root, files, built=True):
    """Writes CLEAN and `files` (None: removed) below `root` and compiles what is to be looked at by nm."""
    with open(FORMAT, encoding="utf-8") as style:
        contents = {".clang-format": style.read(), **CLEAN, **files}
    for path, text in contents.items():
        full = root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        readme = full.parent / "README.md"
        if text is None:
            continue
        if full.suffix in (".c", ".h") and not readme.exists():
            readme.write_text("# folder\n")
        full.write_text(text)
    for path in (p for p, text in contents.items() if text is None):
        (root / path).unlink(missing_ok=True)
    for path in contents if built else ():
        if path.endswith(".c"):
            out = root / "build/release/obj" / (path[:-2] + ".o")
            out.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["gcc", "-w", "-I.", "-c", path, "-o", str(out)], cwd=root, check=False,
                           capture_output=True)


def c_file(name, *lines):
    return "\n".join([f"/* {name} - a file. */", *lines, ""])


def function_of(lines):
    return c_file("long.c", "void f(int *x);", "void f(int *x)", "{", *["    *x += 1;"] * (lines - 2), "}")


# A room that calls one above it.
UPWARD = {
    "node/cluster/model/low.c": c_file("low.c", "int up(void);", "int low(void);", "int low(void)", "{",
                                       "    return up();", "}"),
    "node/cluster/request/up.c": c_file("up.c", "int up(void);", "int up(void)", "{", "    return 1;", "}"),
}

CASES = [
    ("layers", {"base/up.h": c_file("up.h", '#include "ring/ring.h"')}, "base/up.h:2", "base may not include ring"),
    ("layers", {"gossip/swim.h": c_file("swim.h", '#include "ring/ring.h"')}, "gossip/swim.h:2",
     "gossip may not include ring"),
    ("layers", {"ring/x.h": c_file("x.h", '#include "gossip/swim.h"'), "gossip/swim.h": c_file("swim.h")},
     "ring/x.h:2", "ring may not include gossip"),
    ("layers", {"node/limit/l.h": c_file("l.h", '#include "node/cluster/c.h"'), "node/cluster/c.h": c_file("c.h")},
     "node/limit/l.h:2", "node/limit may not include node/cluster"),
    ("layers", {"client/lib/l.h": c_file("l.h", '#include "node/cluster/c.h"'), "node/cluster/c.h": c_file("c.h")},
     "client/lib/l.h:2", "client/lib may not include node/cluster"),
    ("layers", {"extra/x.h": c_file("x.h")}, "extra/x.h:1", "no folder of the architecture"),
    ("layers", {"ring/x.h": c_file("x.h", '#include "ring.h"')}, "ring/x.h:2", "write includes from the root"),
    ("include-exists", {"ring/x.h": c_file("x.h", '#include "base/gone.h"')}, "ring/x.h:2", "no file from the root"),
    ("acyclic", {"ring/a.h": c_file("a.h", '#include "ring/b.h"'), "ring/b.h": c_file("b.h", '#include "ring/a.h"')},
     "ring/a.h:1", "ring/a.h -> ring/b.h -> ring/a.h"),
    ("acyclic", {"base/a.h": c_file("a.h", '#include "ring/ring.h"')}, "base:1", "base -> ring -> base"),
    ("libraries", {"ring/x.h": c_file("x.h", "#include <zmq.h>")}, "ring/x.h:2", "know ZeroMQ"),
    ("libraries", {"node/cluster/x.h": c_file("x.h", "#include <czmq.h>")}, "node/cluster/x.h:2", "know ZeroMQ"),
    ("libraries", {"node/runtime/x.h": c_file("x.h", "#include <lmdb.h>")}, "node/runtime/x.h:2", "know LMDB"),
    *[("purity", {"ring/impure.c": c_file("impure.c", f"#include <{header}>", "int f(void);", "int f(void)", "{",
                                          f"    return (int)(long){call};", "}")}, "ring/impure.c:1", symbol)
      for header, call, symbol in [
          ("stdlib.h", "malloc(8)", "malloc"), ("stdlib.h", "getenv(\"A\")", "getenv"),
          ("stdlib.h", "rand()", "rand"), ("time.h", "time(0)", "time"), ("sys/socket.h", "socket(1, 1, 0)", "socket"),
          ("stdio.h", "fopen(\"a\", \"r\")", "fopen"), ("stdio.h", "printf(\"%d\", 1)", "printf"),
          ("pthread.h", "pthread_self()", "pthread_self"), ("unistd.h", "read(0, 0, 0)", "read"),
          ("stdlib.h", "(abort(), 1)", "abort")]],
    ("layers", {"node/cluster/model/l.h": c_file("l.h", '#include "node/cluster/request/r.h"'),
                "node/cluster/request/r.h": c_file("r.h")},
     "node/cluster/model/l.h:2", "node/cluster/model may not include node/cluster/request"),
    ("calls", {**UPWARD}, "node/cluster/model/low.c:1", "model may not call node/cluster/request (up)"),
    ("calls", {"node/cluster/shard/high.c": UPWARD["node/cluster/request/up.c"].replace("up.c", "high.c"),
               "node/cluster/control/low.c": UPWARD["node/cluster/model/low.c"]},
     "node/cluster/control/low.c:1", "control may not call node/cluster/shard (up)"),
    ("calls", {"node/cluster/request/up.c": UPWARD["node/cluster/request/up.c"],
               "node/cluster/model/none.c": c_file("none.c", "int none;"),
               "tests/lint/debts.txt": "# why\nnode/cluster/model -> node/cluster/request up\n"},
     "tests/lint/debts.txt:2", "node/cluster/model calls up no more"),
    ("calls", {**UPWARD, "tests/lint/debts.txt": "node/cluster/model -> node/cluster/request up\n"
                                                 "node/cluster/model node/cluster/request up\n"},
     "tests/lint/debts.txt:2", "expected, and once"),
    *[("banned", {"base/call.c": c_file("call.c", "void f(char *a);", "void f(char *a)", "{", f"    {call};", "}")},
       "base/call.c:5", f"{call.split('(')[0]} is banned")
      for call in ["strcpy(a, a)", "strcat(a, a)", "sprintf(a, a)", "gets(a)", "strtok(a, a)", "atoi(a)", "atol(a)",
                   "alloca(8)", "system(a)", "popen(a, a)", "rand()", "usleep(1)", "sleep(1)", "setjmp(a)"]],
    ("file-length", {"ring/long.h": c_file("long.h", *["int a;"] * 1001)}, "ring/long.h:1000", "at most 1000"),
    ("function-length", {"ring/long.c": function_of(71)}, "ring/long.c:4", "f has 71 lines"),
    ("opening-comment", {"ring/x.h": "int x;\n"}, "ring/x.h:1", "opens without a comment"),
    ("opening-comment", {"ring/x.h": "/* y.h - other. */\n"}, "ring/x.h:1", "does not name x.h"),
    ("lists", {"ring/x.h": "/* x.h - a file.\n *\n * A-1  This one\n * goes on. A-2  And here is the next.\n */\n"},
     "ring/x.h:4", "begins within the line"),
    ("lists", {"ring/x.h": "/* x.h - a file.\n *\n * A-1  This one\n * goes on.\n */\n"}, "ring/x.h:4",
     "indented"),
    ("lists", {"ring/x.h": "/* x.h - a file.\n *\n * A-1  This one\n *   goes on.\n */\n"}, "ring/x.h:4",
     "indented"),
    ("invariant-ids", {"ring/x.h": "/* x.h - a file.\n *\n * RING-1  This.\n */\n",
                       "ring/y.c": "/* y.c - a file.\n *\n * RING-1  That.\n */\n"},
     "ring/y.c:3", "RING-1 is defined in ring/x.h:3 already"),
    *[("invariant-ids", {"ring/x.h": "/* x.h - a file.\n *\n * RING-1  This.\n */\n", path: text}, f"{path}:2",
       "RING-2 is defined nowhere")
      for path, text in [("ring/y.c", "/* y.c - a file. */\nint a; /* RING-2 */\n"),
                         ("ring/README.md", "#\nRING-2\n")]],
    ("invariant-ids", {"ring/x.h": "/* x.h - a file.\n *\n * A1  This.\n */\n"}, "ring/x.h:3", "give it the prefix"),
    ("invariant-ids", {"ring/x.h": "/* x.h - a file.\n *\n * A10 This.\n */\n"}, "ring/x.h:3", "give it the prefix"),
    ("invariant-ids", {"ring/x.h": "/* x.h - as A1 of\n * y.h says. */\n"}, "ring/x.h:1", "older form"),
    *[("invariant-ids", {"ring/x.h": "/* x.h - a file.\n *\n * RING-1  This.\n */\n", path: text}, f"{path}:2", said)
      for path, text, said in [("ring/y.c", "/* y.c - a file. */\nint a; /* RIGN-1 */\n", "RIGN-1 is defined nowhere"),
                               ("ring/y.c", "/* y.c - a file. */\nint a; /* D13 */\n", "D13 is the older form"),
                               ("ring/y.md", "See RING-1.\nAnd D13.\n", "D13 is the older form")]],
    ("header-alone", {"ring/x.h": c_file("x.h", "uint32_t f(void);")}, "ring/x.h:1", "does not compile alone"),
    ("format", {"ring/x.h": c_file("x.h", "int  f(void);")}, "ring/x.h:2", "clang-format would change it"),
    *[("finished", {"deploy/notes.txt": f"a\n{word}: later\n", "deploy/README.md": "#\n"}, "deploy/notes.txt:2", word)
      for word in ("TODO", "FIXME", "XXX")],
    ("top-level", {"notes.txt": "a\n"}, "notes.txt:1", "does not belong in the root"),
    ("readme", {"ring/README.md": None}, "ring/README.md:1", "is missing"),
    ("mutations", {"tests/sim/mutants": 'MUTATIONS = [\n    ("none", "ring/x.h", "int gone;", ""),\n]\n',
                   "ring/x.h": c_file("x.h", "int here;")}, "tests/sim/mutants:2", "0 times in ring/x.h"),
    ("mutations", {"tests/sim/mutants": 'MUTATIONS = [\n    ("two", [("ring/x.h", "int here;", ""),\n'
                                        '             ("ring/x.h", "int gone;", "")]),\n]\n',
                   "ring/x.h": c_file("x.h", "int here;")}, "tests/sim/mutants:2", "0 times in ring/x.h"),
    ("folder-size", {f"ring/x{i}.c": c_file(f"x{i}.c", "int none;") for i in range(20)}, "ring:1",
     "has 21 .c files"),
    ("folder-size", {f"ring/x{i}.c": c_file(f"x{i}.c", *["int none;"] * 900) for i in range(6)}, "ring:1",
     "at most 20 of 5000"),
    ("header-size", {"ring/x.h": c_file("x.h", *["int a;"] * 300)}, "ring/x.h:300", "has 301 lines"),
    ("struct-size", {"ring/x.h": c_file("x.h", "struct wide {", *[f"    int a{i}, b{i};" for i in range(21)], "};")},
     "ring/x.h:2", "struct wide has 42 fields"),
    ("struct-size", {"ring/x.h": c_file("x.h", "struct wide {", *[f"    int a{i};" for i in range(41)], "};"),
                     "tests/lint/debts.txt": "struct-size ring/x.h wide 42\n"},
     "tests/lint/debts.txt:1", "struct-size ring/x.h wide 42 is no more"),
    ("struct-size", {"ring/x.h": c_file("x.h", "struct wide {", "    struct {", *[f"        int a{i};" for i in range(41)],
                                        "    };", "};")}, "ring/x.h:2", "struct wide has 41 fields"),
    ("recursion", {"ring/a.c": c_file("a.c", "int a(int);", "__attribute__((noinline)) int a(int n)", "{",
                                      "    return n > 0 ? a(n - 1) : 0;", "}")}, "ring/a.c:4", "itself through: a"),
    ("private-header", {"ring/x.c": c_file("x.c", '#include "gossip/swim_internal.h"', "int none;"),
                        "gossip/swim_internal.h": c_file("swim_internal.h")},
     "ring/x.c:2", "is private to gossip"),
    ("modules-acyclic", {"ring/a.c": c_file("a.c", "int a(void);", "int b(void);", "int a(void)", "{", "    return b();",
                                            "}"),
                         "ring/b.c": c_file("b.c", "int a(void);", "int b(void);", "int b(void)", "{", "    return a();",
                                            "}")},
     "ring/a.c:1", "calls in a circle: a, b"),
    ("recursion", {"ring/a.c": c_file("a.c", "int a(int);", "int a(int n)", "{", "    return n > 0 ? a(n - 1) : 0;", "}")},
     "ring/a.c:4", "calls itself through: a"),
    ("recursion", {"ring/a.c": c_file("a.c", "int up(int);", "int down(int);", "int down(int n)", "{",
                                      "    return up(n);", "}", "int up(int n)", "{", "    return down(n);", "}")},
     "ring/a.c:5", "calls itself through: down, up"),
    ("prose", {"base/README.md": "# base\n\n" + "words " * 17 + "\n"}, "base/README.md:3", "has 102 columns"),
    ("prose", {"base/README.md": "# base\n\n" + ("word " * 15 + "\n") * 3 + "end.\n"}, "base/README.md:3",
     "has 46 words, more than 45"),
    ("prose", {"base/README.md": "# base\n\n- " + ("word " * 13 + "\n  ") * 2 + "end.\n"}, "base/README.md:1",
     "27.0 words on average"),
    ("prose", {"deploy/docs/README.md": "# docs\n", "deploy/docs/x.md": "# x\n\n" + ("word " * 15 + "\n") * 4},
     "deploy/docs/x.md:3", "more than 45"),
    ("prose", {"base/README.md": "# base\n" + "\nword.\n" * 30}, "base/README.md:61", "has 61 lines, more than 60"),
    ("blocks", {"base/README.md": "# base\n\n```\ncode\n```\n"}, "base/README.md:3", "says it is ``"),
    ("blocks", {"base/README.md": "# base\n\n```sh\nmake\n````\n\nmore\n"}, "base/README.md:3", "nothing closes"),
    ("blocks", {"base/README.md": "# base\n\n    make\n"}, "base/README.md:3", "is an indented block"),
    ("blocks", {"base/README.md": "# base\n\n```sh plain\nmake\n```\n"}, "base/README.md:3", "means nothing"),
    ("blocks", {"base/README.md": "# base\n\n```yaml\na: 1\n```\n"}, "base/README.md:3", "of which kind"),
    ("blocks", {"base/README.md": "# base\n\n```text\na\n```\n"}, "base/README.md:3", "text that nothing checks"),
]


@pytest.mark.parametrize("rule,files,place,message", CASES)
def test_a_rule_catches_its_violation(tmp_path, rule, files, place, message):
    plant(tmp_path, files)
    status, output = lint("--root", str(tmp_path), "--only", rule)
    assert status == 1, output
    assert any(line.startswith(f"{place}: {rule}: ") and message in line for line in output.splitlines()), output


def test_a_clean_tree_passes_every_rule(tmp_path):
    plant(tmp_path, {"ring/edge.c": function_of(70).replace("long.c", "edge.c")})
    status, output = lint("--root", str(tmp_path))
    assert status == 0, output
    assert "FAILED" not in output and "not run" not in output


def test_a_pure_source_without_an_object_is_not_passed_over(tmp_path):
    plant(tmp_path, {}, built=False)
    status, output = lint("--root", str(tmp_path), "--only", "purity")
    assert status == 1 and "has no object" in output


def test_a_call_that_is_listed_is_no_finding(tmp_path):
    plant(tmp_path, {**UPWARD, "tests/lint/debts.txt": "# why\nnode/cluster/model -> node/cluster/request up\n"})
    status, output = lint("--root", str(tmp_path), "--only", "calls")
    assert status == 0, output


def test_an_id_that_is_defined_elsewhere_is_no_finding(tmp_path):
    plant(tmp_path, {"ring/x.h": "/* x.h - a file.\n *\n * RING-1  This.\n */\n",
                     "base/y.h": "/* y.h - UTF-8, RING-1, promise R3. */\n"})
    status, output = lint("--root", str(tmp_path), "--only", "invariant-ids,lists")
    assert status == 0, output


def test_a_rule_left_out_is_named(tmp_path):
    plant(tmp_path, {})
    status, output = lint("--root", str(tmp_path), "--only", "banned")
    assert status == 0 and "not run: layers" in output


def test_every_rule_has_a_case():
    _, output = lint("--list")
    rules = {line.split()[0] for line in output.splitlines()}
    assert rules == {case[0] for case in CASES}
