# The floor. Everything else stands on it.
sources.base := $(wildcard base/*.c)
