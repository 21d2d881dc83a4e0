"""A local chain node that the unmodified Bittensor SDK and `btcli` talk to, for demos, tests and trying out.

Real: the runtime metadata, and with it all storage keys and SCALE encoding; signatures, nonces and eras; the
dispatch errors by their true numbers; events; block hashes over SCALE headers; reads at older blocks; Yuma
consensus in the pallet's arithmetic; timelocks, opened by drand's signatures; which uid a full subnet gives
up; the space that commitments may use.

Simplified: one author makes every block and every block is final at once; there are no fees and no pools (one
alpha is one TAO); an epoch's emission decides who is pruned but is paid to nobody; subnets, balances and
stake come out of nothing through `localnet_*` methods; a stake counts for permits at once; the burn price is
constant; loopback addresses may be served; the calls accepted are those in `dispatch.py`, with rules written
here after the runtime's documentation; the state root is not a Merkle root; MEV shield is off, and a subnet
has one mechanism. What works here is wire-compatible with runtime 461. It says nothing about the economics of
the real chain.

`neurons.localnet.launch.LocalNet` runs it as a child process; `arena localnet` and `python -m
neurons.localnet` in the foreground.
"""
