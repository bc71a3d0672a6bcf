"""JSON Schema: what the grammar can enforce of a client's schema, and what is left to check."""
