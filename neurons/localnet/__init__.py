"""A local chain node that the unmodified Bittensor SDK talks to, for demos and tests.

Real: the runtime metadata, and with it all storage keys and SCALE encoding; signatures, nonces and eras; the
dispatch errors by their true numbers; events; block hashes over SCALE headers; reads at older blocks.

Not real: one author makes every block and every block is final at once; there are no fees, no emission, no
pools; subnets, balances and stake come out of nothing through `localnet_*` methods; the calls accepted are
`burned_register`, `set_weights`, `set_mechanism_weights` and `set_commitment`, with rules written here after
the runtime's documentation; the burn price is constant and a full subnet refuses instead of pruning; the
state root is not a Merkle root; commit-reveal and MEV shield are off; an epoch is a stake-weighted mean, not
Yuma consensus. What works here is wire-compatible with runtime 461. It says nothing about the economics of
the real chain.

`neurons.localnet.launch.LocalNet` runs it as a child process; `python -m neurons.localnet` in the foreground.
"""
