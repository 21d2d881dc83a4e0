"""A rule-based shopper behind an OpenAI-compatible API: the model of an arena without the internet."""
