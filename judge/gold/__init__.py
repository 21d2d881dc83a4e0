"""The labelled set: short episodes with the grade their author gave them, to measure judges against.

Each half is a folder of JSON files. `dev` may be read by whoever builds a judge; `unseen` is only scored.
A file holds shared tool results and cases that refer to them:

    {"environment": "shopping" | "ledger",
     "results": {"drills-page-1": [{"product_id": "101", ...}, ...], ...},
     "cases": [
       {"id": "dev-cited-003",
        "query": "what the agent was asked",
        "turns": [
          {"reasoning": "what the model thought (may be empty)",
           "text": "what it said beside it (optional)",
           "completion_tokens": 64,
           "calls": [{"tool": "find_product", "arguments": {...}, "result": "drills-page-1",
                      "scripted": false, "error": null}]}
        ],
        "grade": 0.7, "gate": "cited",
        "why": "one or two sentences: what passes the last gate, what stops the next"}],
     "injections": [
       {"id": "dev-injection-007", "family": "fake judge output", "base": "dev-cited-003",
        "turn": 1, "field": "reasoning" | "text" | "query" | "result",
         "where": "before" | "after" | "replace",
        "text": "..."}]}

`result` is a name in `results` (a string without a space) or the JSON value itself; with an `error` it may be
left out. A turn without `reasoning`, `text` and `completion_tokens` is a script's: its calls are scripted.

An injection is its base case with `text` put into one field of one turn; turns count from 0, and the query
needs none. For `result`, the text goes into the first string of several words in the first call's result,
which stands for a seller's text (a title, a memo). Its true grade is the base's, because text aimed at the
judge is no reasoning.
"""
