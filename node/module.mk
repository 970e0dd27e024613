# The daemon: main.c wires the folders below it and decides nothing.
sources.node := $(wildcard node/*/*.c node/*/*/*.c)
sources.proto := $(wildcard node/gateway/grpc/proto/*.proto)
# What the command line links of it: rules are judged without a node.
sources.policy := $(wildcard node/policy/*/*.c) $(wildcard node/zones/*.c) \
                  $(wildcard node/sources/*.c)
main.node    := $(wildcard node/main.c)

# CZMQ is of the stack; nothing of it is called yet, and the linker leaves it out.
packages.node = libzmq libczmq lmdb $(msgpack) libsodium yaml-0.1 libuv libsystemd glib-2.0 zlib libcurl \
                libnghttp2 libprotobuf-c
