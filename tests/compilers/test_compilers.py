# SPDX-License-Identifier: GPL-2.0
"""Builds by clang and for other processors without a warning, and clang's modules at work."""

import re

import pytest

import exercise
import trees
from vmlab import modules, proc, suites

KERNELS = ["5.10", "6.1", "6.12", "7.2", "7.3"]
OTHERS = {f"6.12 {target.name}": target for target in trees.OTHERS}
# What depends on the compiler and its tools, and changes no structure that modules share with
# the kernel; drivers in Rust are among it
OF_THE_COMPILER = re.compile("|".join((
    r"(CC|GCC|AS|LD|CLANG|LLD|TOOLS|PAHOLE|RUSTC?|BINDGEN|OPENSSL)_\w+",
    r"FTRACE_MCOUNT_USE_\w+", r"HA(S|VE)_\w*(CLANG|COMPILER|CFI_ICALL\w+)", r"MITIGATION_\w+",
    r"UBSAN_(ARRAY_BOUNDS|BOUNDS_STRICT)", r"CPU_(SRSO|UNRET_ENTRY)", "RETHUNK", "SLS", "RUST",
    "FORTIFY_SOURCE", "USE_X86_SEG_SUPPORT", "BUILD_SALT", "MODULE_SIG_KEY",
    r"X86_X32(_\w+)?", r"\w+_RUST_PHY", "AMCC_QT2025_PHY", r"DRM_PANIC_SCREEN_QR_\w+")))
# What modpost says about a kernel of which there are headers only
NO_SYMBOLS = re.compile(r"undefined!$|suppressed \d+ unresolved symbol warnings")
# What a compiler takes from its own library, which no kernel has: divisions of 64 bits
LIBRARY = re.compile(r"__\w+[sdt]i[34]|__aeabi_\w+")


def expect_no_warning(built):
    """Neither of a compiler nor of modpost, and nothing is called that no kernel has."""
    words = [line for line in built.log.read_text().splitlines()
             if re.search(r"\b(warning|error)\b", line, re.I) and not NO_SYMBOLS.search(line)]
    assert not words, "\n".join(words)
    for module in built.directory.glob("*.ko"):
        used = proc.run(["nm", "-u", str(module)])[1].split()
        assert not [name for name in used if LIBRARY.fullmatch(name)], module.name


@pytest.mark.full
@pytest.mark.matrix("built by clang, W=1", row="kernel_series")
@pytest.mark.parametrize("kernel_series", KERNELS)
def test_clang(kernel_series):
    """In the configuration of the stock kernel, as far as clang has its options."""
    suite = suites.find(kernel_series)
    built = trees.build(suite, trees.CLANG)
    expect_no_warning(built)
    assert built.answers == modules.expected_answers(kernel_series)
    other = trees.configured_otherwise(suite, trees.CLANG)
    assert not [name for name in other if not OF_THE_COMPILER.fullmatch(name)], other


@pytest.mark.full
@pytest.mark.matrix("built by gcc or clang, W=1", row="other")
@pytest.mark.parametrize("other", OTHERS)
def test_other_processors(other):
    """Compiled only."""
    built = trees.build(suites.find("6.12"), OTHERS[other])
    expect_no_warning(built)
    assert built.answers == modules.expected_answers("6.12")


@pytest.mark.full
@pytest.mark.matrix("clang's with clang's")
@pytest.mark.kernels(*KERNELS)
def test_clangs_modules_work(pair, suite):
    """On the stock kernel, with one client and one server."""
    built = trees.build(suite, trees.CLANG)
    pair.on_each(lambda guest: guest.install_modules(built))
    exercise.run(pair, None)
