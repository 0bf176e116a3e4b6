"""Generated from docs/openapi.json: what the server takes and answers, and how each route is asked."""
