# mypy: ignore-errors
"""The model writes a plan of stages first; each stage is then played by a conversation of its own."""

import json

PLAN = """You lead a team of shoppers. Write the stages of the work as a JSON list of objects with the keys
"goal" and "tool" (find_product, view_product_information or recommend_product)."""
STAGE = """You do one stage of a purchase. Goal: {goal}. Use the tool {tool}. Known so far: {known}"""


class StageFailed(Exception):
    pass


class Board:
    """Facts that stages leave for later ones."""

    def __init__(self):
        self.facts = []
        self.products = {}

    def learn(self, source, result):
        rows = result if isinstance(result, list) else [result]
        for row in rows:
            if isinstance(row, dict) and "product_id" in row:
                known = self.products.setdefault(row["product_id"], {})
                known.update({k: v for k, v in row.items() if v not in (None, "", [])})
        self.facts.append((source, len(rows)))

    def summary(self, limit=8):
        newest = list(self.products.items())[-limit:]
        lines = [f"{key}: {row.get('title', '?')} at {row.get('price', '?')}" for key, row in newest]
        return "; ".join(lines) or "nothing"


def only(specs, name):
    chosen = [s for s in specs if s["function"]["name"] == name]
    if not chosen:
        raise StageFailed(f"there is no tool {name}")
    return chosen


def plan_of(llm, query):
    text = llm.chat([{"role": "system", "content": PLAN}, {"role": "user", "content": query}])["content"]
    try:
        stages = json.loads(text[text.index("[") : text.rindex("]") + 1])
        return [(str(s["goal"]), str(s["tool"])) for s in stages][:8]
    except (ValueError, KeyError, TypeError):
        return [("find candidates", "find_product"), ("recommend the best", "recommend_product")]


def play_stage(board, tools, llm, query, goal, tool):
    offered = only(tools.specs, tool)
    brief = STAGE.format(goal=goal, tool=tool, known=board.summary())
    talk = [{"role": "system", "content": brief}, {"role": "user", "content": query}]
    for attempt in range(3):
        said = llm.chat(talk, tools=offered, temperature=0.1 * attempt)
        calls = said.get("tool_calls")
        if calls:
            result = tools.call(calls[0]["function"]["name"], calls[0]["function"]["arguments"])
            board.learn(tool, result)
            return tool == "recommend_product"
        talk += [said, {"role": "user", "content": "Call the tool now."}]
    raise StageFailed(goal)


def solve(problem, tools, llm):
    board, done = Board(), False
    queue = plan_of(llm, problem.query)
    retries = 2
    while queue and not done:
        goal, tool = queue.pop(0)
        try:
            done = play_stage(board, tools, llm, problem.query, goal, tool)
        except StageFailed as failure:
            if retries == 0:
                break
            retries -= 1
            queue.insert(0, (f"{failure}, in another way", "find_product"))
    if not done and board.products:
        cheapest = min(board.products.values(), key=lambda row: float(row.get("price", "inf")))
        tools.recommend_product(product_ids=cheapest["product_id"])
        done = True
    tools.terminate(status="success" if done else "failure")
