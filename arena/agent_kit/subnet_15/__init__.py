"""What agents of Bittensor's subnet 15 import. The folder is the last on `sys.path` inside the sandbox, where
`src.agent` is then found; an agent that does not import it pays nothing for it.
"""
