# Test programs. Each tests/unit/test_*.c is one executable, which takes what it calls of everything that is
# not a main, and of the helpers in support_*.c and the judge of histories.
sources.unit    := $(wildcard tests/unit/test_*.c)
sources.support := $(wildcard tests/unit/support_*.c) tests/sim/linear.c
sources.bench   := $(wildcard tests/bench/bench_*.c)
sources.load    := $(wildcard tests/bench/load*.c)
sources.fuzz    := $(wildcard tests/fuzz/fuzz_*.c)

# What no target of tests/fuzz reaches: threads and sockets, the client library, what people read. A target that does
# does not link until its file is left out here.
fuzzed_of_cli    := $(addprefix arguments/,arguments command_table commands flag_table operands pool_flags \
                                           replay_arguments values) \
                    $(addprefix output/,document grid table text)
sources.unfuzzed := $(sources.lib) $(filter-out node/runtime/config/%,$(wildcard node/runtime/*/*.c)) \
                    $(filter-out $(fuzzed_of_cli:%=client/cli/%.c),$(sources.cli))

# The simulator is one program of all its files; it exists once one of them has a main.
sources.sim := $(wildcard tests/sim/*.c)
main.sim    := $(if $(sources.sim),$(shell grep -ls '^int main' $(sources.sim)))

# Reads what clients of real nodes saw and says whether it is linearizable.
sources.judge := tests/cluster/judge.c tests/sim/linear.c

packages.tests = $(packages.node) cmocka jansson
