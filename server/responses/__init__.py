"""`/v1/responses`: the input becomes a chat request, the events of its answer become items."""
