"""Agents that miners would be paid to write, and what must be seen after each of them.

`agents/` holds one file for each attempt; `expectations/` says, under the agent's name, what must be seen
from outside when it is over. The one thing to know: a sandbox that "held" against an attempt that was never
made proves nothing, so a run in which the agent did not show its attempt is an `error`, not a success.
"""
