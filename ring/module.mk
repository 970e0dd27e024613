# Who owns a key. Pure.
sources.ring := $(wildcard ring/*.c)
