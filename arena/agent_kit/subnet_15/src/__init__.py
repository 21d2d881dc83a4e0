"""The name under which agents of subnet 15 find their interface."""
