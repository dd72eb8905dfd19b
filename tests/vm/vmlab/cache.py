# SPDX-License-Identifier: GPL-2.0
"""Directories named after the hash of what they were made from.

An entry is `kind-name-<hash>/`.  It is made under a temporary name and renamed
when complete, so an entry that exists is whole.  A shared lock is held on it
while a process uses it; older entries of the same kind and name are removed
once nobody does.
"""

import contextlib
import fcntl
import fnmatch
import hashlib
import os
import shutil
from pathlib import Path

from . import host

_in_use = {}


def digest(*parts):
    """A short hash of strings and bytes."""
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:20]


@contextlib.contextmanager
def locked(path):
    """Hold an flock on a file, waiting for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle


def _lock_file(path):
    """The open lock file of an entry.  These files stay: removing one would race with its use."""
    (host.CACHE / "locks").mkdir(parents=True, exist_ok=True)
    return open(host.CACHE / "locks" / path.name, "a", encoding="utf-8")


def _try_exclusive(lock):
    """Take a lock for ourselves; False if someone has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(path):
    """End the use of an entry before this process ends."""
    _in_use.pop(path).close()


def _prune(prefix, keep):
    """Remove the entries of a kind that nobody uses, but for `keep`."""
    for old in host.CACHE.glob(f"{prefix}-*"):
        if old != keep and old not in _in_use and len(old.name) == len(keep.name):
            with _lock_file(old) as lock:
                if _try_exclusive(lock):
                    shutil.rmtree(old, ignore_errors=True)


def entry(prefix, key, make):
    """The directory for `key`, made by make(temporary directory) if there is none.

    Two threads or processes that want the same entry make it once: who has
    the lock for itself makes it, who shares the lock uses it.
    """
    path = host.CACHE / f"{prefix}-{key}"
    lock = _lock_file(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        while not path.is_dir():
            if _try_exclusive(lock):
                _make(path, make)
            fcntl.flock(lock, fcntl.LOCK_SH)
    except BaseException:
        lock.close()
        raise
    # Closing a second lock file of ours does not give up the first.
    if _in_use.setdefault(path, lock) is not lock:
        lock.close()
    _prune(prefix, path)
    return path


def _make(path, make):
    temporary = path.parent / f".making-{path.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        if not path.is_dir():
            make(temporary)
            os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# Files that editors and tools leave anywhere, and texts for people.
NOT_CONTENT = (".*", "*~", "*.orig", "*.rej", "*.md", "__pycache__")


def _is_content(path):
    return not any(fnmatch.fnmatch(part, pattern) for part in path.parts
                   for pattern in NOT_CONTENT)


def tree_files(tree, skip, everything=False):
    """The files below `tree`, sorted, without the top-level names in `skip`.

    everything: those that match NOT_CONTENT, too
    """
    tree = Path(tree)
    found = []
    for top in sorted(tree.iterdir()):
        if top.name not in skip:
            found += [path for path in (sorted(top.rglob("*")) if top.is_dir() else [top])
                      if path.is_file()
                      and (everything or _is_content(path.relative_to(tree)))]
    return found


def tree_digest(tree, skip):
    """A hash over names, modes and contents of a tree."""
    parts = []
    for path in tree_files(tree, skip):
        parts += [str(path.relative_to(tree)), oct(path.stat().st_mode), path.read_bytes()]
    return digest(*parts)
