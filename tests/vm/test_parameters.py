# SPDX-License-Identifier: GPL-2.0
"""Module parameters: wrong ones keep the module out, with an errno and a line in the log."""

import json
import re

# Loads rtrs-server or rnbd-server with parameters, tells the errno, and unloads it again.
LOAD = """
import ctypes, errno, json, os, sys
FINIT_MODULE, DELETE_MODULE = 313, 176
libc = ctypes.CDLL(None, use_errno=True)
answers = []
for number, (name, parameters) in enumerate(json.load(sys.stdin)):
    with open("/dev/kmsg", "w") as log:
        log.write(f"case {number}.")
    file = os.open(f"/lib/modules/{os.uname().release}/updates/{name}.ko", os.O_RDONLY)
    failed = libc.syscall(FINIT_MODULE, file, parameters.encode(), 0)
    answers.append(errno.errorcode[ctypes.get_errno()] if failed else "loads")
    os.close(file)
    if not failed:
        assert not libc.syscall(DELETE_MODULE, name.replace("-", "_").encode(), os.O_NONBLOCK)
print(json.dumps(answers))
"""

# (module, parameters, errno, what the log must say)
CASES = [
    ("rtrs-server", "max_chunk_size=4096", "EINVAL", "max_chunk_size=4096 is not"),
    ("rtrs-server", "max_chunk_size=12288", "EINVAL", "max_chunk_size=12288 is not"),
    ("rtrs-server", "max_chunk_size=0", "EINVAL", "max_chunk_size=0 is not"),
    ("rtrs-server", "max_chunk_size=8388608", "EINVAL", "max_chunk_size=8388608 is not"),
    ("rtrs-server", "max_chunk_size=words", "EINVAL", "max_chunk_size"),
    ("rtrs-server", "sess_queue_depth=0", "EINVAL", "sess_queue_depth=0 is not"),
    ("rtrs-server", "sess_queue_depth=65536", "EINVAL", "sess_queue_depth=65536 is not"),
    ("rtrs-server", "sess_queue_depth=-1", "EINVAL", "sess_queue_depth=-1 is not"),
    ("rtrs-server", "sess_queue_depth=abc", "EINVAL", "sess_queue_depth"),
    ("rtrs-server", "always_invalidate=2", "EINVAL", "always_invalidate"),
    ("rtrs-server", "always_invalidate=maybe", "EINVAL", "always_invalidate"),
    ("rtrs-server", "private_buffers=-1", "EINVAL", "private_buffers=-1 is not"),
    ("rtrs-server", "private_buffers=1025", "EINVAL", "private_buffers=1025 is not"),
    ("rtrs-server", "sess_queue_depth=65535 max_chunk_size=8192", "EINVAL", "can address"),
    ("rtrs-server", "sess_queue_depth=2049 max_chunk_size=131072", "EINVAL", "can address"),
    ("rtrs-server", "sess_queue_depth=32768 max_chunk_size=8192", "loads", ""),
    ("rtrs-server", "sess_queue_depth=2048 max_chunk_size=131072", "loads", ""),
    ("rtrs-server", "always_invalidate=1 private_buffers=0", "loads", ""),
    ("rtrs-server", "colour=red", "loads", "colour"),
    ("rtrs-server", "", "loads", ""),
    ("rnbd-server", "port_nr=70000", "ERANGE", "port_nr"),
    ("rnbd-server", "port_nr=-1", "EINVAL", "port_nr"),
    ("rnbd-server", "port_nr=words", "EINVAL", "port_nr"),
    ("rnbd-server", "dev_search_path=/" + "d" * 4095, "EINVAL", "dev_search_path"),
    ("rnbd-server", "dev_search_path=/dev port_nr=1235", "loads", ""),
]


def test_module_parameters(pair, modules):
    """Every value out of bounds is refused with its errno and named in the log."""
    guest = pair.server
    guest.put("/tmp/load.py", LOAD)
    position = guest.log.position()
    answers = []
    for module, below in (("rtrs-server", "rtrs-core"), ("rnbd-server", "rtrs-server")):
        guest.run(f"modprobe {below}")
        cases = [case[:2] for case in CASES if case[0] == module]
        answers += json.loads(guest.run("python3 /tmp/load.py",
                                        stdin=json.dumps(cases).encode()).out)
    guest.sync_log()
    said = re.split(r"case \d+\.", "\n".join(guest.log.since(position)))[1:]
    assert len(said) == len(answers) == len(CASES)
    wrong = [f"{module} {parameters[:60]}: {answer}, {text}"
             for (module, parameters, expected, words), answer, text in zip(CASES, answers, said)
             if answer != expected or words not in text]
    assert not wrong, "\n".join(wrong)
    guest.run("modprobe -r rtrs_server rtrs_core")
