# SPDX-License-Identifier: GPL-2.0
"""`make deb` and `make rpm`: what comes out, that it comes out the same again, what lint says."""

import re
import shutil

import pytest

import packages
import roots
from vmlab import host, modules



def listing(root, command):
    """The paths that a command prints."""
    return set(root.run(command)[1].split())


@pytest.fixture(name="root", scope="module")
def root_fixture(scratch, built):
    """A root with the tools and all packages."""
    root = packages.tools().root(scratch.new())
    root.give(*(path for path in built.iterdir() if path.name != "log"))
    return root


def test_packages_are_there(built):
    version = packages.VERSION
    spec = (host.ROOT / "rpm/rnbd-dkms.spec").read_text()
    release = re.search(r"^Release: +(\w+)", spec, re.M)[1]
    assert {path.name for path in built.iterdir()} == {
        "log", f"rnbd_{version}.dsc", f"rnbd_{version}.tar.xz",
        *(f"{name}_{version}_all.deb" for name in ("rnbd-dkms", "rnbd-tools")),
        *(f"{name}-{version}-{release}.noarch.rpm" for name in ("rnbd-dkms", "rnbd-tools")),
        f"rnbd-dkms-{version}-{release}.src.rpm"}


@pytest.mark.parametrize("command", [
    "dpkg-deb --fsys-tarfile rnbd-dkms_*.deb | tar -t", "rpm -qlp rnbd-dkms-*.noarch.rpm"])
def test_package_has_all_that_is_built(root, command):
    """All files of the directories, and nothing else below them."""
    found = {re.sub(r"^\.?/usr/src/rnbd-[^/]*/", "", path) for path in listing(root, command)
             if re.match(r"\.?/usr/src/rnbd-[^/]*/.*[^/]$", path)}
    with modules.copied(host.ROOT) as tree:
        expected = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    names = re.compile(r"(rtrs|rnbd|compat)/|(Kbuild|Makefile|VERSION)$")
    expected = {path for path in expected if names.match(path)}
    # Texts are no content of a build; the rpm lists directories, too.
    assert expected | {"dkms.conf", "LICENSE"} <= found
    more = found - expected - {"dkms.conf", "LICENSE"}
    # "package" says that the directory is one's.
    assert all(path.endswith(".md") or path == "package" or (host.ROOT / path).is_dir()
               for path in more), more


def test_debian_package_needs_no_newer_dkms(root):
    """Debian 11 has 2.8.4."""
    fields = root.run("dpkg-deb -f rnbd-dkms_*.deb Depends")[1]
    assert re.search(r"\bdkms \(>= 2\.1\.0\.0\)", fields), fields


def test_lintian(root):
    output = root.run("lintian --allow-root --display-info --show-overrides rnbd_*.dsc *.deb",
                      check=False)[1]
    assert not re.findall("^[EWI]: .*", output, re.M), output
    assert re.search("^O: rnbd-dkms: ", output, re.M), "lintian has not looked"


def test_rpmlint(root):
    shutil.copy(host.ROOT / "rpm/rpmlint.toml", root.work)
    code, output = root.run("rpmlint -c rpmlint.toml rnbd-*.rpm", check=False)
    assert code == 0 and "0 errors, 0 warnings" in output, output


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_same_bytes_again(built, scratch, kind):
    """From another directory, at another time, by somebody with another umask and locale."""
    root = packages.tools().root(scratch.new())
    place = root.work / "somewhere else"
    with modules.copied(host.ROOT, everything=True) as tree:
        shutil.copytree(tree, place)
    place.chmod(0o700)
    for old in ("rnbd-dkms_0.0.9_all.deb", "rnbd-dkms-0.0.9-1.noarch.rpm"):
        if old.endswith(kind):
            (place / "build/packages").mkdir(parents=True)
            (place / "build/packages" / old).touch()
    root.run(f"cd 'somewhere else' && chmod -R g+w . && find . -exec touch -d 2001-01-01 {{}} + && "
             f"umask 077 && export LC_ALL=C TZ=Asia/Tokyo HOME=/tmp && make {kind}")
    made = sorted((place / "build/packages").iterdir())
    assert made
    for path in made:
        assert path.read_bytes() == (built / path.name).read_bytes(), path.name


def test_same_bytes_from_git(built, scratch):
    """What is committed, as of its time; here that of the changelog."""
    root = packages.tools().root(scratch.new())
    with modules.copied(host.ROOT, everything=True) as tree:
        shutil.copytree(tree, root.work / "tree")
    root.run("""cd tree
        export GIT_COMMITTER_DATE="$(sed -n 's/^ -- .*>  //p' debian/changelog | head -n 1)"
        git init -q && git add -A && git -c user.name=n -c user.email=e commit -qm m
        touch not-ours.o && echo '*.o' >.git/info/exclude
        make deb""")
    made = root.work / "tree/build/packages"
    for path in made.iterdir():
        assert path.read_bytes() == (built / path.name).read_bytes(), path.name
    assert len(list(made.glob("*.deb"))) == 2


def test_rebuilt_debian_package_is_whole(scratch):
    """With something behind the version, as backports have: all of it in one directory."""
    root = packages.tools().root(scratch.new())
    with modules.copied(host.ROOT, everything=True) as tree:
        shutil.copytree(tree, root.work / "tree")
    changelog = root.work / "tree/debian/changelog"
    changelog.write_text(changelog.read_text().replace(
        f"({packages.VERSION})", f"({packages.VERSION}~bpo12+1)", 1))
    root.run("make -C tree deb && dpkg-deb -x tree/build/packages/rnbd-dkms_*.deb out")
    assert [path.name for path in (root.work / "out/usr/src").iterdir()] == \
        [f"rnbd-{packages.VERSION}"]


@pytest.mark.full
@pytest.mark.parametrize("name", ["bullseye", "trixie"])
def test_debian_package_can_be_built_elsewhere(scratch, name):
    """With the debhelper and the dkms of other suites."""
    base = roots.base(name, packages.BUILDERS[name], "debhelper")
    root = base.root(scratch.new())
    with modules.copied(host.ROOT, everything=True) as tree:
        shutil.copytree(tree, root.work / "tree")
    root.run("make -C tree deb")
    depends = root.run("dpkg-deb -f tree/build/packages/rnbd-dkms_*.deb Depends")[1]
    assert re.search(r"\bdkms \(>= 2\.1\.0\.0\)", depends), depends
