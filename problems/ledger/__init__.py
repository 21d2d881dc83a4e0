"""A second world: questions over a synthetic bank ledger, with two tools and an exact outcome."""
