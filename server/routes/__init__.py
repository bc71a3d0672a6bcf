"""The routes, one file per API. Each has a `router(parts)`, which `server/app.py` puts in."""
