# What survives. The only folder that knows LMDB.
sources.storage := $(wildcard storage/*.c)
