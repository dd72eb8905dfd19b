# SPDX-License-Identifier: GPL-2.0
"""docs/ against the code.

Every file in sysfs has its entry in ABI/, every entry has its file; what known-bugs.md names exists.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ABI = ROOT / "docs/ABI"

# What is described where: folder of the code, files of docs/ABI with what their entries begin with
ROOMS = {
    "rtrs/client": {"sysfs-class-rtrs-client": "/sys/class/rtrs-client/<session>/"},
    "rtrs/server": {"sysfs-class-rtrs-server": "/sys/class/rtrs-server/<session>/"},
    "rnbd/client": {"sysfs-class-rnbd-client": "/sys/class/rnbd-client/ctl/",
                    "sysfs-block-rnbd": "/sys/block/rnbd<N>/"},
    "rnbd/server": {"sysfs-class-rnbd-server": "/sys/class/rnbd-server/ctl/"},
}
MODULES = ("rtrs/core", *ROOMS)
# Not ours, but what it does here is
FOREIGN = {"/sys/block/rnbd<N>/queue/io_timeout"}

FIELDS = ["What", "Date", "KernelVersion", "Contact", "Description"]
MODES = {"RO": "0444", "RW": "0644", "WO": "0200"}
DEFINE = re.compile(r"^#define (\w+)\((\w+)[^)]*\)((?:.*\\\n)*.*)", re.M)
ATTRIBUTE = r"\b(?:DEVICE_ATTR|__ATTR)"
PARAMETER = r"\bmodule_param(?:_\w+)?\("


def attributes(text):
    """{name: mode} of the attributes that a source defines."""
    wrappers = {}
    for name, first, body in DEFINE.findall(text):
        made = re.search(rf"{ATTRIBUTE}\(\s*{first}\s*,\s*(0\d+)", body)
        wrappers |= {name: made[1]} if made else {}
    text = DEFINE.sub("", text)
    found = [(name, MODES[kind])
             for kind, name in re.findall(rf"{ATTRIBUTE}_(RO|RW|WO)\(\s*(\w+)\s*\)", text)]
    found += re.findall(rf"{ATTRIBUTE}\(\s*(\w+)\s*,\s*(0\d+)", text)
    assert len(found) == len(re.findall(ATTRIBUTE, text)), "an attribute of an unknown kind"
    for wrapper, mode in wrappers.items():
        found += [(name, mode) for name in re.findall(rf"\b{wrapper}\(\s*(\w+)", text)]
    return dict(found)


def parameters(text):
    """{name: mode} of the module parameters that a source defines."""
    found = re.findall(PARAMETER + r"\s*(\w+)\s*,[^;]*,\s*(0\d*)\s*\);", text)
    assert len(found) == len(re.findall(PARAMETER, text)), "a parameter of an unknown kind"
    return {name: mode for name, mode in found if int(mode, 8)}


def places(text):
    """The directories and links with fixed names that a source makes."""
    return set(re.findall(r"(?:kobject_create_and_add|dev_set_name|sysfs_create_link)\("
                          r'[^;"]*"(\w+)"', text))


def entries(text):
    """[(what, {field: its text})] of a file of docs/ABI."""
    found = []
    for entry in re.split(r"^(?=What:)", text, flags=re.M)[1:]:
        fields = dict(re.findall(r"^(\w+):\s*((?:.*\n?)(?:^(?:\t.*)?\n?)*)", entry, re.M))
        found.append((fields["What"].strip(), fields))
    return found


def fixed(what):
    """The last component of a path, or None if it is a placeholder."""
    last = what.rstrip("/").rsplit("/", 1)[1]
    return None if "<" in last else last


def compare(found, there, quoted=""):
    """What is wrong: found is {name: mode}, there are the entries, quoted is the code."""
    wrong, seen = [], set()
    for what, fields in there:
        name = fixed(what)
        mode = re.match(r"Mode (\d{4})\.", fields["Description"])
        if mode and name in found:
            seen.add(name)
            wrong += [] if mode[1] == found[name] else [f"{what}: its mode is {found[name]}"]
        elif mode and what not in FOREIGN:
            wrong.append(f"{what}: not in the code")
        elif not mode and name and f'"{name}"' not in quoted:
            wrong.append(f"{what}: not in the code, or without its mode")
    return wrong + [f"{name}: has no entry" for name in sorted(set(found) - seen)]


def code(folder):
    """All sources of a folder as one text."""
    return "\n".join(path.read_text() for path in sorted((ROOT / folder).glob("*.[ch]")))


def described(name):
    """The entries of a file of docs/ABI."""
    return entries((ABI / name).read_text())


@pytest.mark.parametrize("folder", ROOMS)
def test_files(folder):
    """Attributes, and directories and links with fixed names."""
    text = code(folder)
    there = [entry for name in ROOMS[folder] for entry in described(name)]
    found = attributes(text)
    assert found and not compare(found, there, text)
    assert not places(text) - {fixed(what) for what, _ in there}
    for name, start in ROOMS[folder].items():
        assert not [what for what, _ in described(name) if not what.startswith(start)]


def test_parameters():
    there = described("sysfs-module-rnbd")
    modules = {folder: f"/sys/module/{folder.replace('/', '_')}/parameters/" for folder in MODULES}
    for folder, start in modules.items():
        its = [entry for entry in there if entry[0].startswith(start)]
        assert not compare(parameters(code(folder)), its)
    assert not [what for what, _ in there if not what.startswith(tuple(modules.values()))]


def test_form():
    """Every entry has all fields in order, and is there once."""
    names = {path.name for path in ABI.iterdir()}
    assert names == {name for files in ROOMS.values() for name in files} | {"sysfs-module-rnbd"}
    there = [entry for name in sorted(names) for entry in described(name)]
    whats = [what for what, _ in there]
    assert sorted(whats) == sorted(set(whats))
    assert not [what for what, fields in there if list(fields) not in (FIELDS, [*FIELDS, "Users"])
                or not re.fullmatch(r"\d{4}-\d{2}", fields["Date"].strip())
                or not fields["Description"].strip()]


def test_every_kind_is_noticed():
    """So that the tests above can fail."""
    text = ("static DEVICE_ATTR_RW(one);\nstatic struct kobj_attribute a = __ATTR_RO(two);\n"
            "static struct kobj_attribute b =\n\t__ATTR(three, 0600, show, store);\n"
            "#define FILE(_name, _x)\t\\\n\t{ .attr = __ATTR(_name, 0640, x, y), }\n"
            "FILE(four, z);\n")
    found = attributes(text)
    assert found == {"one": "0644", "two": "0444", "three": "0600", "four": "0640"}
    with pytest.raises(AssertionError):
        attributes("static DEVICE_ATTR_ADMIN_RW(five);")
    assert parameters("module_param(a, int, 0444);\nmodule_param_named(b, c, uint, 0644);\n"
                      "module_param_cb(d, &ops,\n\t\t&arg, 0400);\nmodule_param(e, int, 0);\n") == \
        {"a": "0444", "b": "0644", "d": "0400"}
    assert places('k = kobject_create_and_add("paths", x);\nsysfs_create_link(a, b, "link");') == \
        {"paths", "link"}
    there = entries("".join(f"What:\t\t/sys/{name}\nDescription:\t{text}\n\n"
                            for name, text in (("one", "Mode 0644.\n\n\t\tMore."),
                                               ("two", "Mode 0644."), ("three", "Mode 0600."),
                                               ("six", "Mode 0444."), ("seven/", "A directory."))))
    assert compare(found, there, '"paths"') == [
        "/sys/two: its mode is 0444", "/sys/six: not in the code",
        "/sys/seven/: not in the code, or without its mode", "four: has no entry"]


def prose(text):
    """A document without its code."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^( {4}|\t).*$", "", text, flags=re.M))


def anchors(text):
    """What the headings of a document are called in links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def test_links_lead_somewhere():
    """The files and headings that our documents refer to."""
    broken = []
    for path in ROOT.rglob("*.md"):
        if "build" in path.relative_to(ROOT).parts:
            continue
        for name, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", prose(path.read_text())):
            target = path.parent / name if name else path
            if not target.exists() or anchor and anchor not in anchors(target.read_text()):
                broken.append(f"{path.relative_to(ROOT)}: {name}#{anchor}")
    assert not broken


# ---- known-bugs.md

# Ids of each section, in order
ROWS = [[f"{letter}{number:02}" for number in range(1, last + 1)]
        for letter, last in (("B", 37), ("D", 32))]
# `file: name` or `file: name()`, or a file alone
NAMED = re.compile(r"`((?:rnbd|rtrs|compat|tests|docs)/[\w./-]+)(?:: (\w+)(\(\))?)?`")


def bug_rows(text):
    """[(id, last column)] of all tables."""
    return re.findall(r"^\| ([A-Z]\d+) \|[^|]*\| (.*) \|$", text, re.M)


def defines(path, text, name, is_function):
    """Is there such a test, or such a function, in a file?"""
    if path.startswith("tests/") == is_function:
        return False
    if path.endswith(".py"):
        return bool(re.search(rf"^def {name}\(", text, re.M))
    if not is_function:
        return f"cmocka_unit_test({name})" in text
    # The line of a definition begins with its type and does not end as a declaration does.
    return bool(re.search(rf"^[a-z][\w *]*\b{name}\([^;]*?\)\s*\{{", text, re.M))


def bug_troubles(row, column, read):
    """What is wrong with a row; read gives the text of a file, or None."""
    wrong, tests = [], []
    for path, name, call in NAMED.findall(column):
        text = read(path)
        if text is None or name and not defines(path, text, name, bool(call)):
            wrong.append(f"{row}: there is no {path}: {name}{call}")
        elif path.startswith("tests/"):
            tests.append(text)
    if not tests and not re.search(r"\*\*not ruled out\*\*|\*\*no test\*\*|^n/a", column):
        wrong.append(f"{row}: no test, and no word about that")
    if tests and not any(re.search(rf"\b{row}\b", text) for text in tests):
        wrong.append(f"{row}: no test says that it is about it")
    return wrong


def test_known_bugs():
    """Every row is there once, in order; files, tests and functions exist; tests name their rows."""
    def read(path):
        return (ROOT / path).read_text() if (ROOT / path).is_file() else None

    rows = bug_rows((ROOT / "docs/known-bugs.md").read_text())
    assert [row for row, _ in rows] == sum(ROWS, [])
    wrong = [text for row, column in rows for text in bug_troubles(row, column, read)]
    assert not wrong, "\n".join(wrong)


def test_every_trouble_of_a_row_is_noticed():
    """So that the test above can fail."""
    files = {"rnbd/a.c": "int there(void);\n\n\treturn called(1);\n"
                         "static int there_too(int a,\n\t\t     int b)\n{\n}\n",
             "tests/vm/test_a.py": '    """Row B01."""\n\ndef test_it(pair):\n    helper(1)\n',
             "tests/unit/test_a.c": "cmocka_unit_test(listed),"}
    assert bug_rows("| row | a | b |\n|---|---|---|\n| B01 | what | `x` and y |\n") == \
        [("B01", "`x` and y")]
    for row, column, expected in (
            ("B01", "`rnbd/a.c: there_too()`: so; `tests/vm/test_a.py: test_it`", 0),
            ("B01", "`rnbd/a.c: there()`; `tests/vm/test_a.py: test_it`", 1),
            ("B01", "`rnbd/a.c: called()`; `tests/vm/test_a.py: test_it`", 1),
            ("B01", "`rnbd/b.c`; `tests/vm/test_a.py: test_it`", 1),
            ("B01", "`tests/vm/test_a.py: test_it()`", 2),
            ("B01", "`tests/vm/test_a.py: test_other`", 2),
            ("B01", "`tests/vm/test_a.py: helper`", 2),
            ("B02", "`tests/vm/test_a.py: test_it`", 1),
            ("B01", "`tests/unit/test_a.c: listed`, `tests/vm/test_a.py: test_it`", 0),
            ("B01", "`tests/unit/test_a.c: cmocka`, `tests/vm/test_a.py: test_it`", 1),
            ("B01", "`rnbd/a.c: there_too()`", 1),
            ("B01", "`rnbd/a.c: there_too()`; **no test**", 0),
            ("B01", "**not ruled out**: no", 0), ("B01", "n/a, not ours", 0), ("B01", "surely", 1)):
        assert len(bug_troubles(row, column, files.get)) == expected, column
