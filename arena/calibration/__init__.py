"""How well copies are told from honest work: a set of both, and what is found in it.

`agents/` holds agents that were written apart from one another, `forks/` honest forks of a public baseline;
they are read as sources and never imported. `copies` makes copies of them as a copyist would.
"""
