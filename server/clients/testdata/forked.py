"""Imports a library once, which takes longer than most operations, and then runs a program of its in
a process of its own for each line: the program's arguments in, its status and output out."""
import importlib
import json
import os
import runpy
import sys

library, program = sys.argv[1:]
importlib.import_module(library)
print(flush=True)  # it is there
for line in sys.stdin:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(theirs, 1)
        os.dup2(theirs, 2)
        os.close(ours)
        sys.argv[1:] = json.loads(line)
        runpy.run_path(program, run_name="__main__")
        sys.exit()
    os.close(theirs)
    with open(ours, errors="replace") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps({"Status": status, "Said": said}), flush=True)
