# What users link and run: the wire protocol (pure), the C library, the command line.
sources.protocol := $(wildcard client/protocol/*.c)
sources.lib      := $(wildcard client/lib/*.c client/lib/*/*.c)
sources.screen   := $(wildcard client/screen/*.c)
sources.replay   := $(wildcard client/replay/*.c)
sources.cli      := $(wildcard client/cli/*/*.c)
main.cli         := $(wildcard client/cli/main.c)
main.examples    := $(wildcard client/examples/*.c)

# The library's own needs. The command line adds what it prints and reads files with.
packages.lib  = libzmq $(msgpack) libsodium
packages.cli  = $(packages.lib) yaml-0.1 glib-2.0 zlib

# What runs inside the command line of what the daemon has as well: rules are judged and limits decided offline.
sources.offline = $(sources.screen) $(sources.replay) $(sources.policy) $(wildcard node/limit/*/*.c)
