"""The HTTP server: wire types, constraint, engine, and the straight line that joins them."""
