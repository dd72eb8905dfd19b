# SPDX-License-Identifier: GPL-2.0
"""Root file systems that packages are installed into, on top of cached ones that stay as they are.

A root is an overlay: below lie a suite's root file system and a cached layer with
the packages a test needs there, above a directory of the test's own.
"""

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from vmlab import cache, forms, host, proc, rootfs, suites

DKMS = ("dkms", "dpkg-dev")
# To build packages and to judge them, and to install an rpm
TOOLS = ("debhelper", "dh-dkms", "lintian", "rpm", "rpmlint", "createrepo-c", "dnf", "git")

MOUNT = """
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
    mount --bind "$2/build" "$2/root/build"
    [ -z "$3" ] || mount --bind "$3" "$2/root/mnt"
    mount -t proc proc "$2/root/proc"
    mount --rbind /dev "$2/root/dev"
"""
# What a machine boots from; it has no use for what only pretends to be a running kernel.
IMAGE = """
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
    cd "$2/root"
    mkdir -p proc sys dev run tmp mnt
    rm -f usr/local/bin/uname
    used=$(du -skx . | cut -f 1)
    truncate -s "$((used * 9 / 8 + 1048576))K" "$3/root.img"
    mke2fs -q -t ext4 -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d . "$3/root.img"
    cp "boot/vmlinuz-$4" "$3/vmlinuz"
    cp -r "usr/lib/modules/$4" "$3/modules"
"""
PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# apt gives the packages' scripts a path of its own, which would miss uname, see Root.runs().
APT = ("apt-get -qy -o Dpkg::Use-Pty=0 "
       f"-o DPkg::Path={PATH}")
ENTER = 'cd /build && . ./.script'
# What changes by itself, and what dkms makes for itself with the first module of all
NOT_OURS = re.compile(r"/var/lib/dkms(/mok\.(key|pub)|/dkms_dbversion)?|/var/lib/dpkg/\S*"
                      r"|/var/lib/apt/\S*|\S*/__pycache__(/\S*)?|/usr/lib/modules/[^/]+(/updates|/modules\.\S+)?")
# dkms reads this after dkms.conf.
KEEP_BUILDS = ("/etc/dkms/rnbd.conf", """MAKE[0]="'/mnt/keep' ${MAKE[0]}"\n""")


# The suites that packages are tried on; a name with a version is one with a kernel from backports
NAMES = [name for name in forms.short_or_full(
            ("bookworm",), ("bullseye", "bookworm", "trixie", "trixie-backports-7.2"))
         if not os.environ.get("KERNELS") or suites.find(name).series in forms.kernels()]


class Root:
    """A root file system to spoil.

    lower: the directories it lies on, the uppermost first
    directory: where what is changed is kept
    shared: a directory that is seen as /mnt, or ""
    """

    def __init__(self, lower, directory, shared=""):
        self.lower = [Path(path) for path in lower]
        self.directory = Path(directory)
        self.shared = shared
        self.work = self.directory / "build"
        for name in ("upper", "work", "root", "build"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)

    def run(self, script, check=True, log=None, before=""):
        """Run a shell script in /build; returns (exit code, output).

        before: a script that runs outside, when everything is mounted on "$2/root"
        """
        (self.work / ".script").write_text(script + "\n")
        inner = f"set -e\n{MOUNT}\n{before}\nexec chroot \"$2/root\" /bin/sh -c '{ENTER}'"
        argv = [*proc.SANDBOX, "/bin/sh", "-c", inner, "sh", ":".join(map(str, self.lower)),
                str(self.directory), str(self.shared)]
        # No initramfs: nothing boots from here, and making one takes long.
        env = {"PATH": PATH, "LC_ALL": "C.UTF-8", "HOME": "/root", "INITRD": "No",
               "DEBIAN_FRONTEND": "noninteractive", "PYTHONDONTWRITEBYTECODE": "1"}
        return proc.run(argv, log=log, check=check, env=env)

    def write(self, path, text):
        """Write a file in the root, where nothing is mounted now."""
        target = self.directory / "upper" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def remove(self, path):
        """Remove a file or directory that write() has made."""
        target = self.directory / "upper" / path.lstrip("/")
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()

    def runs(self, release):
        """Have uname say that a kernel of the root is the running one."""
        self.write("/usr/local/bin/uname", "#!/bin/sh\n"
                   f'[ "$1" = -r ] && echo {release} || exec /usr/bin/uname "$@"\n')
        (self.directory / "upper/usr/local/bin/uname").chmod(0o755)

    def give(self, *paths):
        """Put files into /build; returns their names."""
        for path in paths:
            shutil.copy(path, self.work)
        return [Path(path).name for path in paths]

    def boot_files(self, release, directory):
        """What a machine boots from that is this root now, with one of its kernels."""
        argv = [*proc.SANDBOX, "/bin/sh", "-ec", IMAGE, "sh", ":".join(map(str, self.lower)),
                str(self.directory), str(directory), release]
        proc.run(argv)
        rootfs.make_initrd(directory / "modules", directory)
        return rootfs.BootFiles(None, release, directory / "vmlinuz", directory / "initrd.img",
                                directory / "root.img", directory / "modules")

    def files(self):
        """{path: kind, mode and size} of everything, but for what changes by itself."""
        listed = self.run(r"find / -xdev \( -path /var/log -o -path /var/cache -o -path /tmp "
                          r"-o -path /build -o -path /run \) -prune -o "
                          r"-printf '%p %y %m %l %s\n'")[1]
        found = {}
        for line in listed.splitlines():
            path, kind, rest = line.split(" ", 2)
            # A directory's size is its history.
            found[path] = (kind, rest if kind != "d" else rest.split()[0])
        return found


@dataclass(frozen=True)
class Base:
    """What the roots of a test lie on, and the kernel that is installed there."""

    kind: str
    suite: suites.Suite
    lower: tuple
    key: str
    release: str

    def root(self, directory, keeps=False):
        """A new root in a directory.

        keeps: dkms builds the same source for the same kernel only once, see keep
        """
        root = Root(self.lower, directory, _kept_builds(self) if keeps else "")
        if keeps:
            root.write(*KEEP_BUILDS)
        root.runs(self.release)
        return root

    @property
    def kernels(self):
        """The kernels that modules are built for: all that have headers."""
        found = {path.name for each in self.lower for path in each.glob("usr/lib/modules/*")
                 if (path / "build").is_symlink()}
        return {release for release in found if supported(release)}

    @property
    def status(self):
        """What is installed, as dpkg keeps it."""
        return next(path for path in (each / "var/lib/dpkg/status" for each in self.lower)
                    if path.exists())


def _kept_builds(below):
    """A directory for what was built on such a root, with the script that looks there."""
    script = Path(__file__).with_name("keep")
    kept = cache.entry(f"builds_{below.kind}-{below.suite.name}",
                       cache.digest(below.key, script.read_bytes()),
                       lambda directory: shutil.copy(script, directory))
    # Those of sources that have changed since are of no use.
    for old in sorted(kept.glob("*-*/"), key=lambda path: path.stat().st_mtime)[:-12]:
        shutil.rmtree(old, ignore_errors=True)
    return kept


def _closure(apt, packages, below):
    """What apt would install; asking it takes ten seconds, so it is asked once for its lists."""
    answer = apt.dir / "closures" / cache.digest(
        *packages, below.key, (apt.dir / "updated").stat().st_mtime_ns)
    if not answer.exists():
        answer.parent.mkdir(exist_ok=True)
        wanted = apt.closure(packages, below.status)
        answer.with_suffix(".new").write_text("\n".join(wanted))
        answer.with_suffix(".new").rename(answer)
    return answer.read_text().split("\n")


def base(name, packages=DKMS, kind="dkms"):
    """A suite's root file system with some packages more; kind: what the cache calls them."""
    fs = rootfs.rootfs(suites.find(name))
    below = Base(kind, fs.suite, (fs.root,), fs.key, fs.release)
    apt = suites.PrivateApt(fs.suite)
    wanted = _closure(apt, packages, below)
    key = cache.digest(fs.key, *wanted)

    def make(directory):
        host.progress(f"{name}: adding {', '.join(packages)}")
        root = Root(below.lower, directory)
        apt.download(root.work, *(each.replace(" ", "=") for each in wanted))
        root.run("apt-get -qy install ./*.deb && rm -rf /var/cache/apt/*.bin",
                 log=directory / "apt.log")
        for each in ("build", "work", "root"):
            shutil.rmtree(directory / each)

    layer = cache.entry(f"{kind}-{name}", key, make)
    return Base(kind, fs.suite, (layer / "upper", fs.root), key, fs.release)


# The newer kernel of a suite that has one; the others have an -rt flavour
NEWER_KERNEL = {"7.2": "7.3"}


def another_kernel(below):
    """(its release, package files) of a kernel that a suite has besides what is installed."""
    apt = suites.PrivateApt(below.suite)
    newer = NEWER_KERNEL.get(below.suite.version)
    for release in suites.kernels(apt, newer or below.suite.version, "" if newer else "rt"):
        try:
            return release, _kernel(apt, below, release)
        except proc.CommandError as error:
            # Mirrors of old suites list files that they have no more.
            if "404" not in str(error):
                raise
            host.progress(f"{below.suite.name}: kernel {release} is listed, but not there")
    raise host.SetupError(f"{below.suite.name} has no other kernel")


def _kernel(apt, below, release):
    """The package files of a kernel and what it needs."""
    wanted = _closure(apt, (f"linux-image-{release}", f"linux-headers-{release}"), below)

    def make(directory):
        host.progress(f"{below.suite.name}: downloading kernel {release}")
        apt.download(directory, *(each.replace(" ", "=") for each in wanted))

    files = cache.entry(f"kernel_more-{below.suite.name}", cache.digest(*wanted), make)
    return sorted(files.glob("*.deb"))


class Scratch:
    """Directories for roots: on the file system of the cache, removed at the end."""

    def __init__(self):
        host.CACHE.mkdir(parents=True, exist_ok=True)
        self._directory = Path(tempfile.mkdtemp(dir=host.CACHE, prefix=".roots-"))
        self._count = 0

    def new(self):
        """One directory more."""
        self._count += 1
        directory = self._directory / str(self._count)
        directory.mkdir()
        return directory

    def try_overlay(self):
        """Mount one; CommandError if that is impossible here, as in many containers."""
        directory = self.new()
        for name in ("lower", "upper", "work", "root"):
            (directory / name).mkdir()
        proc.run([*proc.SANDBOX, "sh", "-c", 'cd "$1" && mount -t overlay overlay '
                  "-o lowerdir=lower,upperdir=upper,workdir=work root", "sh", str(directory)])

    def close(self):
        """Remove everything."""
        shutil.rmtree(self._directory, ignore_errors=True)


def changes(before, after):
    """The paths that differ in two results of Root.files(), but for what is not ours."""
    return sorted(path for path in before.keys() | after.keys()
                  if before.get(path) != after.get(path)
                  and ("rnbd" in path or "rtrs" in path or not NOT_OURS.fullmatch(path)))


def installed(output):
    """(module/version, kernel) of each line of dkms status that ends with "installed"."""
    return re.findall(r"^(\S+?),?[/ ](\S+?), (\S+?), \S+: installed", output, re.M)


def is_root():
    """Nothing here works without."""
    return os.geteuid() == 0


def supported(release):
    """True if compat/range has a kernel, by its release."""
    floor = re.search(r"^floor (\d+)\.(\d+)$", (host.ROOT / "compat/range").read_text(), re.M)
    version = re.match(r"(\d+)\.(\d+)", release)
    return tuple(map(int, version.groups())) >= tuple(map(int, floor.groups()))
