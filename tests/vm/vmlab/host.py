# SPDX-License-Identifier: GPL-2.0
"""What the machine we run on offers: packages, its package mirror, directories."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

VM_DIR = Path(__file__).resolve().parent.parent
ROOT = VM_DIR.parent.parent
BUILD = ROOT / "build"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rnbd"

_start = time.monotonic()
_print_lock = threading.Lock()


def progress(text):
    """Print one line with the time since the start of the run."""
    with _print_lock:
        print(f"[{time.monotonic() - _start:6.1f} s] {text}", flush=True)


class SetupError(Exception):
    """The machine lacks something that the tests need; the text says what."""


def wanted_packages():
    """The names listed in the file host-packages."""
    lines = (VM_DIR / "host-packages").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def missing_packages():
    """Those of wanted_packages() that are not installed."""
    query = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *wanted_packages()],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    present = {line.split()[1] for line in query.stdout.splitlines()
               if line.startswith("installed ")}
    return [name for name in wanted_packages() if name not in present]


def install_packages(names):
    """Install Debian packages on this machine; does nothing for an empty list."""
    if not names:
        return
    if os.geteuid() != 0:
        raise SetupError("these packages are missing and only root can install them: "
                         + " ".join(names))
    progress("installing " + " ".join(names))
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for command in (["apt-get", "-q", "update"],
                    ["apt-get", "-q", "install", "-y", "--no-install-recommends", *names]):
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        # A third-party repository that does not answer fails "update" although
        # Debian's own lists arrived: only the installation decides.
        if done.returncode and command[2] == "install":
            sys.stdout.write(done.stdout)
            raise SetupError("apt-get cannot install " + " ".join(names))


def setup():
    """Make this machine fit for the tests."""
    install_packages(missing_packages())


def _entries_of_list(text):
    """Yield (uri, suite) of a one-line-format sources file."""
    for line in text.splitlines():
        words = re.sub(r"\[[^]]*\]", "", line.split("#")[0]).split()
        if len(words) >= 3 and words[0] == "deb":
            yield words[1], words[2]


def _entries_of_deb822(text):
    """Yield (uri, suite) of a deb822-format sources file."""
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", text):
        fields = {}
        key = None
        for line in stanza.splitlines():
            if line[:1] in (" ", "\t") and key:
                fields[key] += " " + line.strip()
            elif ":" in line:
                key, value = line.split(":", 1)
                key = key.strip().lower()
                fields[key] = value.strip()
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "deb" not in fields.get("types", "").split():
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield uri, suite


def apt_entries(etc=Path("/etc/apt")):
    """All (uri, suite) pairs this machine installs packages from."""
    found = []
    parts = sorted((etc / "sources.list.d").glob("*"))
    for path in [etc / "sources.list", *parts]:
        if not path.is_file():
            continue
        if path.suffix == ".list":
            found += _entries_of_list(path.read_text())
        elif path.suffix == ".sources":
            found += _entries_of_deb822(path.read_text())
    return found


def mirrors(entries=None):
    """The (main, security) archive URIs of this machine's own distribution.

    `security` is None when the machine has no security source.
    """
    entries = apt_entries() if entries is None else entries
    security = [uri for uri, suite in entries
                if re.fullmatch(r"\w+(-security|/updates)/?", suite)]
    known = r"(bullseye|bookworm|trixie|forky|sid|oldstable|stable|testing|unstable)"
    main = [uri for uri, suite in entries if re.fullmatch(known, suite)]
    if not main:
        raise SetupError("no Debian mirror found in this machine's apt sources")
    return main[0].rstrip("/"), security[0].rstrip("/") if security else None
