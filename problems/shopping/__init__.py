"""The shopping environment: a catalog, four tools and the rules that decide an outcome."""
