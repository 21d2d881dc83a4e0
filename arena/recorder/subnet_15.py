"""The paths at which agents of Bittensor's subnet 15 look for the tools: `GET /search/{tool}?argument=value`.

The one thing to know: they are other names for the same desks. A call that comes this way is checked,
metered, executed and recorded as any other; only its answer has the form that those agents know, the bare
result, or a status that is not 200.
"""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, unquote_plus

from arena.recorder.tools import ToolDesk
from arena.recorder.wire import Response, json_response

MAX_ARGUMENTS = 32
_ENCODED_BEFORE = ("q",)
"""Arguments that those agents encode for a URL before their client does so again."""


async def search(desk: ToolDesk, tool: str, query: str) -> Response:
    """Answer a search with the tool's bare result; a refused one with 400 and the reason."""
    try:
        given = dict(parse_qsl(query, max_num_fields=MAX_ARGUMENTS, errors="strict"))
    except ValueError:
        return json_response(400, {"error": {"message": "the query cannot be read as arguments of a tool"}})
    for name in _ENCODED_BEFORE:
        if name in given:
            given[name] = unquote_plus(given[name])
    answer = await desk.call(tool, json.dumps(given).encode())
    said = json.loads(answer.body)
    if answer.status == 200 and said["error"] is None:
        return json_response(200, said["content"])
    status = 400 if answer.status == 200 else answer.status
    code = {"code": "budget_spent"} if status == 429 else {}
    return json_response(status, {"error": {"message": said["error"], **code}})
