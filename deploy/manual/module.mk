# What the build makes of the programs' tables: man pages, reference pages, completion (`make docs`).
sources.manual := $(filter-out deploy/manual/main.c,$(wildcard deploy/manual/*.c))
main.manual    := $(wildcard deploy/manual/main.c)
