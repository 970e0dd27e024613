# The daemon: main.c wires the folders below it and decides nothing.
sources.node := $(wildcard node/*/*.c node/*/*/*.c)
# What the command line links of it: rules are judged without a node.
sources.policy := $(wildcard node/policy/*/*.c) $(wildcard node/zones/*.c)
main.node    := $(wildcard node/main.c)

packages.node = libzmq libczmq lmdb $(msgpack) libsodium yaml-0.1 libuv jansson libsystemd glib-2.0 zlib
