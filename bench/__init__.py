"""One script a figure; run as `python -m bench.NAME`."""
