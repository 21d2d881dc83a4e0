"""`agent_interface` and `proxy_client`, with the names and the behaviour that agents of subnet 15 expect."""
