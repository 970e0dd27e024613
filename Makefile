# Makefile - builds, tests and installs Tidegate.
#
# One make for the whole tree: each folder adds its sources in a module.mk, and this file
# turns them into objects and products. Output goes to build/<variant>/; the release
# variant's products are also linked at build/. `make help` lists the targets.
#
# 1. Reading this file needs nothing but make: compilers and pkg-config are asked only
#    when a recipe runs, so that `make deps` works on a machine that has neither.
# 2. A folder without sources and a program without a main are left out, never an error.
# 3. Objects depend on the compiler and flags that made them (build/<variant>/flags).
#
#    make V=1          shows the commands          make CC=clang    another compiler
#    make VARIANT=asan another variant             make BUILD=DIR   another place for output

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# The version, and its day: man pages tell both.
VERSION   := 0.1.0
DAY       := 2026-11-26
SO_NUMBER := 0

VARIANT ?= release
BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
SEEDS   ?= 300
SEED    ?=
SOAK    ?=
SOAK_SEEDS ?= 100000
FIRST   ?= 1
MUTANT  ?=
SECONDS ?= 600
PYTHON  ?= /usr/bin/python3
JOBS    ?= $(shell nproc)
V       ?= 0

ifeq ($(origin CC),default)
CC := gcc
endif
AR      ?= ar
OBJCOPY ?= objcopy

ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(JOBS)
endif

# --- variants: the same sources, other flags --------------------------------------------

variants := release debug asan ubsan tsan coverage fuzz
ifeq ($(filter $(VARIANT),$(variants)),)
$(error VARIANT=$(VARIANT) is none of: $(variants))
endif

# A check of a sanitizer leaves pointers in data: at a fixed address they need no relocation, which is half of
# what it takes to link a program, and to start it.
sanitized  := -O1 -g1 -fno-omit-frame-pointer -fno-pie
no_recover := -fno-sanitize-recover=all
flags.release  := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong
flags.debug    := -O0 -g3
flags.asan     := $(sanitized) -fsanitize=address,undefined $(no_recover)
flags.ubsan    := $(sanitized) -fsanitize=undefined $(no_recover)
flags.tsan     := $(sanitized) -fsanitize=thread
flags.coverage := -O1 -g --coverage
flags.fuzz     := $(sanitized) -fsanitize=fuzzer-no-link,address,undefined $(no_recover)

# Unit tests are compiled once and run for a second: what they test keeps its flags, they do not.
# At -O0 the sanitizer still knows the memory that a test gives to what it tests.
flags.tests.release := -O1 -g1
flags.tests.asan    := -O0 -fno-sanitize=undefined

# Gcc's optimisers under a sanitizer warn about code they made themselves, so a warning is an
# error only where the code is compiled as written, and for clang, which warns before it optimises.
WERROR ?= $(if $(filter release debug fuzz,$(VARIANT)),-Werror)

warnings := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes $(WERROR)
all_cflags = -std=c11 -D_GNU_SOURCE $(flags.$(VARIANT)) $(warnings) -I. -I$(out) -pthread $(CFLAGS)
all_ldflags = $(flags.$(VARIANT)) $(patsubst -fno-pie,-no-pie,$(filter -fno-pie,$(flags.$(VARIANT)))) -pthread \
              -Wl,--as-needed -Wl,-z,relro,-z,now $(LDFLAGS)

# --- libraries: asked of pkg-config once, and only when a recipe needs the answer --------

msgpack = $(eval msgpack := $$(shell pkg-config --exists msgpack-c && echo msgpack-c || echo msgpack))$(msgpack)
pkg_cflags = $(eval pkg_cflags := $$(shell pkg-config --cflags $$(packages.tests)))$(pkg_cflags)
pkg_libs = $(shell pkg-config --libs $(packages.$(1))) -lm

# There are hundreds of test programs, each linked with everything: gold, where there is one, needs half as long.
quick_ld = $(eval quick_ld := $$(shell command -v ld.gold >/dev/null && echo -fuse-ld=gold))$(quick_ld)

# --- sources -----------------------------------------------------------------------------

include base/module.mk ring/module.mk gossip/module.mk storage/module.mk
include client/module.mk node/module.mk deploy/manual/module.mk tests/module.mk

out := $(BUILD)/$(VARIANT)
objects = $(patsubst %.c,$(out)/obj/%.o,$(1))
pic_objects = $(patsubst %.c,$(out)/pic/%.o,$(1))

floor_sources := $(sources.base) $(sources.protocol)
lib_sources   := $(floor_sources) $(sources.lib)
node_sources  := $(floor_sources) $(sources.screen) $(sources.ring) $(sources.gossip) $(sources.storage) $(sources.node)
all_sources   := $(sort $(node_sources) $(lib_sources) $(sources.cli) $(sources.offline))

# Of what no fuzz target reaches the variant has no code: its compiler, which is the other one, reads that for its warnings.
read_sources := $(if $(filter fuzz,$(VARIANT)),$(sources.unfuzzed) $(main.node) $(main.cli))
core_sources := $(filter-out $(read_sources),$(all_sources))
read_stamps  := $(patsubst %.c,$(out)/read/%,$(read_sources))

core_objects := $(call objects,$(core_sources))

# Messages of gRPC are C that is made of their .proto files, in $(out)/proto.
proto_names   := $(patsubst node/gateway/grpc/proto/%.proto,$(out)/proto/%,$(sources.proto))
proto_headers := $(addsuffix .pb-c.h,$(proto_names))
proto_objects := $(addsuffix .pb-c.o,$(proto_names)) $(out)/proto/descriptors.o
test_objects := $(call objects,$(sources.unit) $(sources.support) $(sources.sim) \
                               $(sources.bench) $(sources.load) $(sources.fuzz) \
                               $(sources.judge) $(sources.manual) $(main.manual))
main_objects := $(call objects,$(filter-out $(read_sources),$(main.node) $(main.cli)))
all_pic      := $(call pic_objects,$(lib_sources))

daemon     := $(if $(main.node),$(out)/tidegated)
cli        := $(if $(main.cli),$(if $(sources.lib),$(out)/tidegate))
static_lib := $(if $(sources.lib),$(out)/libtidegate.a)
shared_lib := $(if $(sources.lib),$(out)/libtidegate.so.$(SO_NUMBER) $(out)/libtidegate.so)
products   := $(daemon) $(cli) $(static_lib) $(shared_lib)
examples   := $(if $(sources.lib),$(patsubst client/examples/%.c,$(out)/examples/%,$(main.examples)))
core       := $(if $(core_sources),$(out)/core.a)
support    := $(out)/support.a
unit_programs  := $(patsubst %.c,$(out)/%,$(sources.unit))
bench_programs := $(patsubst %.c,$(out)/%,$(sources.bench))
load_program   := $(out)/tests/bench/load
fuzz_programs  := $(patsubst %.c,$(out)/%,$(sources.fuzz))
sim_program    := $(if $(main.sim),$(out)/tests/sim)
judge          := $(out)/tests/judge
manual     := $(if $(main.manual),$(out)/manual)
docs       := $(if $(manual),$(if $(filter fuzz,$(VARIANT)),,$(out)/docs))
links := $(if $(filter release,$(VARIANT)),$(patsubst $(out)/%,$(BUILD)/%,$(products) $(docs)))

# --- targets -----------------------------------------------------------------------------

run := BUILD=$(BUILD) VARIANT=$(VARIANT) $(PYTHON) tests/run

.PHONY: all docs deps demo demo-regions test unit lint sim bench fuzz asan ubsan tsan coverage install clean help
.PHONY: conformance documents cluster interop soak mutants measure daemons judge load programs unit-programs core fuzz-programs bench-programs toolchain FORCE

all: $(products) $(docs) $(links) $(examples) ## Builds the daemon, the command line and the client library (the default).

docs: $(docs) $(links) ## Makes man pages, reference pages and completion of the programs' tables (build/docs).

deps: ## Installs the Debian packages that are missing, by apt, asking for root once.
	@deploy/deps test

demo: ## Installs what is missing, builds, and shows a 3-node cluster at work on this machine.
	@deploy/deps build
	@$(MAKE) all
	@deploy/demo $(out)

demo-regions: ## The same for three regions that hold one limit together, 80 ms apart.
	@deploy/deps test
	@$(MAKE) all
	@deploy/multi-region/demo $(out)

test: ## Installs what is missing and runs every test that needs no special machine.
	@deploy/deps test
	@$(run) all

unit: ## Runs the unit tests.
	@$(run) unit

lint: ## Checks layers, purity, banned calls, sizes, comments and format, and the checker itself.
	@$(run) lint

sim: ## Runs SEEDS=n seeded simulations of whole clusters, or only SEED=s.
	@SEEDS=$(SEEDS) SEED=$(SEED) $(run) sim

conformance: ## Checks the protocols against independent implementations of them.
	@$(run) conformance

documents: ## Runs the blocks of every document, and looks for what documents name.
	@$(run) documents

cluster: ## Runs the tests that start real clusters of processes.
	@$(run) cluster

interop: ## Runs peers that others made beside nodes, installing what that needs; ONLY=part,... for some, ONLY=rotating for those whose turn it is.
	@deploy/deps interop
	@ONLY=$(ONLY) $(run) interop

soak: ## Runs SOAK_SEEDS=n simulations from FIRST=f on (100000, 1), then KILLS=n random kills (1000) and every failpoint; SOAK=gossip, SOAK=sim or SOAK=cluster for one.
	@deploy/deps test
	@SOAK=$(SOAK) SOAK_SEEDS=$(SOAK_SEEDS) FIRST=$(FIRST) $(run) soak

mutants: ## Breaks the code in known ways, and expects the simulator to notice each; MUTANT= names one.
	@deploy/deps test
	@$(PYTHON) -B tests/sim/mutants $(if $(MUTANT),"$(MUTANT)")

measure: all ## Measures the promises R1 to R5 on real processes, and prints a table.
	@deploy/deps test
	@TIDEGATE_BUILD=$(BUILD) $(PYTHON) -B tests/cluster/measure.py

bench: ## Measures the promises S1 to S9, each beside its yardstick, and the rest; ONLY=row,... for some rows.
	@deploy/deps all
	@ONLY=$(ONLY) $(run) bench

fuzz: ## Fuzzes every decoder of outside bytes for SECONDS=n each (default 600), with libFuzzer.
	@deploy/deps test
	@SECONDS_EACH=$(SECONDS) $(run) fuzz

asan: ## Runs unit and cluster tests under the address and undefined-behaviour sanitizers.
	@$(run) asan

ubsan: ## Runs unit and cluster tests under the undefined-behaviour sanitizer alone.
	@$(run) ubsan

tsan: ## Runs unit and cluster tests under the thread sanitizer.
	@$(run) tsan

coverage: ## Runs the unit tests instrumented and prints the line coverage of each folder.
	@deploy/deps all
	@$(run) coverage

install: all ## Installs programs, library, header and service; DESTDIR= and PREFIX= say where.
	@deploy/install $(BUILD) "$(DESTDIR)" "$(PREFIX)" "$(VERSION)" "$(SO_NUMBER)"

clean: ## Removes everything that was built.
	rm -rf $(BUILD)

help: ## Lists these targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14
	@echo "Settings: VARIANT= one of $(variants); CC=clang, BUILD=DIR, JOBS=n, V=1."

# What tests/run asks for; not meant to be typed.
daemons: $(daemon) $(cli)
judge: $(judge)
unit-programs: $(unit_programs)
programs: unit-programs $(sim_program)
core: $(core_objects) $(main_objects) $(read_stamps)
bench-programs: $(bench_programs) $(load_program)
load: $(load_program)
fuzz-programs: $(fuzz_programs)

# --- rules -------------------------------------------------------------------------------

ifeq ($(V),0)
say = @printf '  %-5s %s\n' $(1) $(2);
else
say =
endif

# Names the missing tool and the way out before the compiler says something obscure.
toolchain:
	@for tool in $(firstword $(CC)) $(firstword $(AR)) pkg-config protoc-c; do \
	    command -v $$tool >/dev/null || { echo "$$tool is missing: run 'make deps'" >&2; exit 1; }; \
	done
	@pkg-config --exists $(packages.tests) || \
	    { pkg-config --print-errors --exists $(packages.tests); echo "run 'make deps'" >&2; exit 1; }

# Rewritten only when its content changes, so that a changed flag rebuilds and nothing else does.
define write_if_changed
@mkdir -p $(@D)
@printf '%s\n' $(1) | cmp -s - $@ || printf '%s\n' $(1) > $@
endef

$(out)/flags: FORCE | toolchain
	$(call write_if_changed,'$(CC) $(all_cflags) $(pkg_cflags) $(LDFLAGS)')

$(out)/core.list: FORCE
	$(call write_if_changed,$(core_sources))

# By name, for make removes what it knows by a pattern alone, and the next compilation misses it.
$(proto_headers) $(proto_headers:.h=.c): | toolchain
$(out)/proto/%.pb-c.c $(out)/proto/%.pb-c.h &: node/gateway/grpc/proto/%.proto | toolchain
	@mkdir -p $(@D)
	$(call say,PROTO,$<)protoc-c --proto_path=$(<D) --c_out=$(out)/proto $<

# What reflection tells is the files' own descriptors, as bytes.
$(out)/proto/descriptors.c: $(sources.proto) | toolchain
	@mkdir -p $(@D)
	$(call say,PROTO,$@)protoc-c --proto_path=node/gateway/grpc/proto --descriptor_set_out=$@.set $(sources.proto) && \
	    { echo 'const unsigned char grpc_descriptors[] = {'; od -An -v -tu1 $@.set | sed 's/[0-9][0-9]*/&,/g'; \
	      echo '};'; echo 'const unsigned long grpc_descriptors_len = sizeof grpc_descriptors;'; } > $@

$(proto_objects): %.o: %.c $(out)/flags
	$(call say,CC,$<)$(CC) $(all_cflags) -w -c $< -o $@

$(out)/obj/%.o: %.c $(out)/flags | $(proto_headers)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(all_cflags) $(own_cflags) $(pkg_cflags) -MMD -MP -c $< -o $@

$(read_stamps): $(out)/read/%: %.c $(out)/flags | $(proto_headers)
	@mkdir -p $(@D)
	$(call say,READ,$<)$(CC) $(all_cflags) $(pkg_cflags) -fsyntax-only -MMD -MP -MF $@.d -MT $@ $< && touch $@

$(call objects,$(sources.unit) $(sources.support)): own_cflags := $(flags.tests.$(VARIANT))

$(out)/pic/%.o: %.c $(out)/flags
	@mkdir -p $(@D)
	$(call say,CC,"$< (shared)")$(CC) $(all_cflags) $(pkg_cflags) -fPIC -fvisibility=hidden \
	    -MMD -MP -c $< -o $@

$(core): $(core_objects) $(proto_objects) $(out)/core.list
$(support): $(call objects,$(sources.support))
$(core) $(support):
	$(call say,AR,$@)rm -f $@.new && $(AR) rcs $@.new $(filter %.o,$^) && mv $@.new $@

# The library is one object whose hidden symbols are made local, so that a program that
# links it statically meets no name but tg_*.
$(out)/libtidegate.a: $(all_pic) $(out)/core.list
	$(call say,AR,$@)$(CC) -r -nostdlib $(all_pic) \
	    -o $(out)/libtidegate.o && \
	    $(OBJCOPY) --localize-hidden $(out)/libtidegate.o && \
	    rm -f $@ && $(AR) rcs $@ $(out)/libtidegate.o

$(out)/libtidegate.so.$(SO_NUMBER): $(all_pic) $(out)/core.list
	$(call say,LD,$@)$(CC) -shared -Wl,-soname,libtidegate.so.$(SO_NUMBER) $(filter-out -no-pie,$(all_ldflags)) \
	    $(all_pic) -o $@ $(call pkg_libs,lib)

$(out)/libtidegate.so: $(out)/libtidegate.so.$(SO_NUMBER)
	@ln -sf $(<F) $@

$(out)/tidegated: $(call objects,$(main.node) $(node_sources)) $(proto_objects) $(out)/core.list
	$(call say,LD,$@)$(CC) $(all_ldflags) $(filter %.o,$^) -o $@ $(call pkg_libs,node)

# The command line uses the library as any program would; base comes beside it because
# the library keeps its own copy to itself, and rules and limits because it explains the ones and
# replays logs against both by itself.
$(out)/tidegate: $(call objects,$(main.cli) $(sources.cli) $(sources.offline)) \
                 $(out)/libtidegate.a $(call objects,$(floor_sources)) $(out)/core.list
	$(call say,LD,$@)$(CC) $(all_ldflags) $(filter %.o %.a,$^) -o $@ $(call pkg_libs,cli)

# The manual is made by a program that is linked with the tables of the programs it tells of.
$(manual): $(call objects,$(main.manual) $(sources.manual)) $(core)
	$(call say,LD,$@)$(CC) $(all_ldflags) $^ -o $@ $(call pkg_libs,node)

$(docs): $(manual)
	$(call say,DOCS,$@)rm -rf $@ && $(manual) $@ $(VERSION) $(DAY)

# An example is built as its reader would build it: one source, the header, the library.
$(examples): $(out)/examples/%: client/examples/%.c client/include/tidegate.h \
             $(out)/libtidegate.a $(out)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(all_cflags) -Iclient/include $(all_ldflags) $< \
	    $(out)/libtidegate.a -o $@ $(call pkg_libs,lib)

# A program takes what it calls of the helpers and of the core: most are small then, and quickly linked and started.
$(unit_programs): $(out)/tests/unit/%: $(out)/obj/tests/unit/%.o $(support) $(core)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(all_ldflags) $(quick_ld) $^ -o $@ $(call pkg_libs,tests)

$(bench_programs): $(out)/tests/bench/%: $(out)/obj/tests/bench/%.o $(support) $(core)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(all_ldflags) $^ -o $@ $(call pkg_libs,tests)

$(load_program): $(call objects,$(sources.load)) $(core)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(all_ldflags) $(filter %.o,$^) $(core) -o $@ $(call pkg_libs,tests)

$(fuzz_programs): $(out)/tests/fuzz/%: $(out)/obj/tests/fuzz/%.o $(support) $(core)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(all_ldflags) -fsanitize=fuzzer $^ -o $@ $(call pkg_libs,tests)

# The simulator looks at each merge that the shipped code does (tests/sim/check_merge.c).
$(sim_program): $(call objects,$(sources.sim)) $(core)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(all_ldflags) -Wl,--wrap=table_merge $^ -o $@ $(call pkg_libs,tests)

$(judge): $(call objects,$(sources.judge)) $(core)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(all_ldflags) $^ -o $@ $(call pkg_libs,tests)

$(links): $(BUILD)/%: $(out)/%
	@ln -sfn $(VARIANT)/$* $@

FORCE:

-include $(core_objects:.o=.d) $(main_objects:.o=.d) $(test_objects:.o=.d) $(all_pic:.o=.d) \
         $(addsuffix .d,$(read_stamps))
