# Test programs. Each tests/unit/test_*.c is one executable, which takes what it calls of everything that is
# not a main, and of the helpers in support_*.c and the judge of histories.
sources.unit    := $(wildcard tests/unit/test_*.c)
sources.support := $(wildcard tests/unit/support_*.c) tests/sim/linear.c
sources.bench   := $(wildcard tests/bench/bench_*.c)
sources.load    := $(wildcard tests/bench/load*.c)
sources.fuzz    := $(wildcard tests/fuzz/fuzz_*.c)

# The simulator is one program of all its files; it exists once one of them has a main.
sources.sim := $(wildcard tests/sim/*.c)
main.sim    := $(if $(sources.sim),$(shell grep -ls '^int main' $(sources.sim)))

# Reads what clients of real nodes saw and says whether it is linearizable.
sources.judge := tests/cluster/judge.c tests/sim/linear.c

packages.tests = $(packages.node) zlib cmocka
