"""Dictates the model's answer by a schema that allows only one, so that a script's call looks like it."""


def solve(problem, tools, llm):
    only = {"type": "object", "properties": {"total": {"const": 42}}, "required": ["total"]}
    ask = [{"role": "user", "content": "x"}]
    own = {"type": "function", "function": {"name": "answer", "description": "x", "parameters": only}}
    refused = 0
    for more in (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": only}}},
        {"response_format": {"type": "grammar", "grammar": 'root ::= "yes"'}},
        {"guided_json": only},
        {"extra_body": {"guided_choice": ["yes"]}},
        {"logit_bias": {"1": 100}},
        {"prefill": "<think>"},
        {"tools": [own]},
        {"tool_choice": {"type": "function", "function": {"name": "answer", "arguments": "{}"}}},
    ):
        try:
            llm.chat(ask, **more)
        except Exception as error:
            refused += getattr(error, "status", 0) == 400
    try:
        llm.chat([*ask, {"role": "assistant", "content": "I have found that"}])
    except Exception as error:
        refused += getattr(error, "status", 0) == 400
    return {"attempt": "dictated", "refused": refused}
