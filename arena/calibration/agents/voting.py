# mypy: ignore-errors
"""Asks for a reading of the request several times and goes by what most readings agree on."""

import collections
import json
import statistics

READERS = 5
FIELDS = ("what", "brand", "colour", "size", "lowest", "highest", "ships_from")
READ = (
    "Read a shopping request. Give a JSON object with the keys "
    + ", ".join(FIELDS)
    + "; null where the request says nothing. Only the object."
)


def reading(llm, query, temperature):
    answer = llm.chat(
        [{"role": "user", "content": READ + "\n\n" + query}], temperature=temperature, max_tokens=300
    )
    body = answer.get("content") or "{}"
    start, end = body.find("{"), body.rfind("}")
    try:
        parsed = json.loads(body[start : end + 1])
    except ValueError:
        return {}
    return {key: parsed.get(key) for key in FIELDS} if isinstance(parsed, dict) else {}


def agreed(readings):
    result = {}
    for key in FIELDS:
        given = [r[key] for r in readings if r.get(key) not in (None, "", "null")]
        if 2 * len(given) <= len(readings):
            continue
        if key in ("lowest", "highest"):
            numbers = []
            for value in given:
                bare = str(value).replace(",", "")
                if bare.replace(".", "", 1).isdigit():
                    numbers.append(float(bare))
            if numbers:
                result[key] = statistics.median(numbers)
        else:
            counted = collections.Counter(str(value).strip().lower() for value in given)
            result[key] = counted.most_common(1)[0][0]
    return result


def price_filter(wish):
    low, high = wish.get("lowest"), wish.get("highest")
    if low is None and high is None:
        return {}
    return {"price": f"{'' if low is None else int(low)}-{'' if high is None else int(high)}"}


def ballots(llm, query, rows):
    votes = collections.Counter()
    listing = "\n".join(f"{i}. {row['title']} ({row['price']})" for i, row in enumerate(rows, 1))
    for turn in range(READERS):
        text = llm.chat(
            [
                {"role": "system", "content": "Reply with the number of the best product and one reason."},
                {"role": "user", "content": query + "\n\n" + listing},
            ],
            temperature=0.2 * turn,
        ).get("content", "")
        digits = "".join(c if c.isdigit() else " " for c in text).split()
        if digits and 1 <= int(digits[0]) <= len(rows):
            votes[int(digits[0]) - 1] += 1
    return votes


def solve(problem, tools, llm):
    wish = agreed([reading(llm, problem.query, 0.1 + 0.15 * n) for n in range(READERS)])
    terms = [wish[key] for key in ("brand", "colour", "what", "size") if key in wish]
    rows = tools.find_product(q=" ".join(terms) or problem.query, page=1, **price_filter(wish))
    while not rows and len(terms) > 1:
        terms.pop(0)
        rows = tools.find_product(q=" ".join(terms), page=1)
    if rows:
        votes = ballots(llm, problem.query, rows[:10])
        winner = votes.most_common(1)[0][0] if votes else 0
        tools.recommend_product(product_ids=rows[winner]["product_id"])
    tools.terminate(status="success" if rows else "failure")
