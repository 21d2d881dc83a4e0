"""The witness: records every model and tool call of an episode outside the agent."""
