"""Asks for a model that it is not to have, by name, by path and by number of answers."""


def solve(problem, tools, llm):
    refused, ask = 0, [{"role": "user", "content": "x"}]
    for more in (
        {"model": "gpt-7-expensive"},
        {"model": "../puppet-1"},
        {"model": "puppet-1\n"},
        {"model": "puppet-1", "n": 100},
        {"model": "puppet-1", "best_of": 100},
        {"model": ["puppet-1"]},
        {"base_url": "http://169.254.169.254/"},
    ):
        try:
            llm.chat(ask, **more)
        except Exception as error:
            refused += getattr(error, "status", 0) in (400, 404)
    return {"attempt": "asked", "refused": refused}
