# SPDX-License-Identifier: GPL-2.0
#
# Verbs for people and for dkms. The kernel's make reads Kbuild instead.

KVER ?=
KDIR ?=
BUILD ?= build
PYTHON ?= /usr/bin/python3
PYTEST = $(PYTHON) -m pytest

export KVER KDIR BUILD ONLY OFED OFED_DIR MAKE T KERNELS FULL

.DEFAULT_GOAL := help

help:
	@sed -n 's/^## \{0,1\}//p' Makefile

## Building
##   make modules       the five modules for the running kernel, into build/RELEASE
##                        KVER=RELEASE      for another installed kernel
##                        KDIR=DIRECTORY    for a kernel's build directory
##                        W=1 C=2 V=1 CC= LLVM=1 mean what they mean to the kernel's make
modules:
	+@compat/build

##   make clean         remove what was built
clean:
	rm -rf $(BUILD)

##
## Packages (into build/packages; the same bytes whenever and wherever they are built)
##   make deb           rnbd-dkms and rnbd-tools for Debian and its relatives
##   make rpm           the same for Fedora, RHEL and their relatives
deb rpm:
	@tools/package $@

##
## Seeing it work (Debian 12, root; nothing is loaded on this machine)
##   make demo          two virtual machines, one disk, step by step in words
demo: setup
	$(PYTHON) tests/demo.py

##   make shell         a shell in a virtual machine with the modules
shell: setup
	$(PYTHON) tests/vm/vm shell

##
## Testing
##   make check         everything, in its short form
##                        T=NAME            one test
##                        KERNELS="6.12"    some of the kernels
##   make check-full    everything as written, which takes long
##   make matrix        ours with ours and with mainline's on every kernel; prints a table
##   make unit          wire formats, parsers and tables on this machine, seconds
##   make fuzz          the decoders, 30 seconds each; FUZZ_SECONDS=N
##   make lint          the sources and the build: warnings, sparse, checkpatch, probes
check: setup
	$(PYTEST) tests

check-full: export FULL = 1
check-full: check

matrix: export FULL = 1
matrix: setup
	$(PYTEST) tests -m matrix

unit: setup
	$(PYTEST) tests/unit

fuzz: setup
	$(PYTEST) tests/fuzz

lint: setup
	$(PYTEST) tests/lint tests/probes

# The Debian packages that the tests and the demo need on this machine. A
# minimal installation lacks even the interpreter of what installs them.
setup:
	@command -v $(PYTHON) >/dev/null || { echo "installing python3"; \
		apt-get -q update >/dev/null; \
		DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends python3 >/dev/null; }
	@$(PYTHON) tests/vm/vm setup

.PHONY: help modules clean deb rpm demo shell check check-full matrix unit fuzz lint setup
