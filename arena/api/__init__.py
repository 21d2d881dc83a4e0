"""The arena over HTTP. `arena.api.app.create_app` makes the application."""
