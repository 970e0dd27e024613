# Who is alive. Pure.
sources.gossip := $(wildcard gossip/*.c)
