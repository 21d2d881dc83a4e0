"""The race: submissions, sandbox, recorder, episodes, races, promotion, payout and the API."""
